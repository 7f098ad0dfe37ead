import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { ipFamilyOf } from "../../../../src/services/address.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { describeUdpConformance } from "../../../conformance/udp.ts";

describeUdpConformance("UDP through the syscall engine", ({ udp, hooks, nodeAddress }) =>
	createSyscallEngine({
		bindAddress: undefined,
		udpAddress: (family) => (family === ipFamilyOf(nodeAddress) ? nodeAddress : undefined),
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
