import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { describeUdpConformance } from "../../../conformance/udp.ts";

describeUdpConformance("UDP through the syscall engine", ({ udp, hooks }) =>
	createSyscallEngine({
		bindAddress: undefined,
		portRange: undefined,
		dialTimeoutsMs: [250],
		halfCloseIdleMs: 60_000,
		udp,
		preferredPorts: new Map(),
		hooks,
		log: silentLog,
		random: () => 0,
		workers: 1,
	}),
);
