import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { describeUdpConformance } from "../../../conformance/udp.ts";

for (const [name, ioUring] of [
	["UDP through the syscall engine", true],
	["UDP through the syscall engine, without io_uring", false],
] as const) {
	describeUdpConformance(name, ({ udp, hooks }) =>
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
			ioUring,
		}),
	);
}
