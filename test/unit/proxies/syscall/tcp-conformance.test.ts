import { WORKER_DESCRIPTORS } from "../../../../src/proxies/descriptor-budget.ts";
import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { describeTcpConformance } from "../../../conformance/tcp.ts";

const WORKERS = 2;

for (const [name, ioUring] of [
	["syscall", true],
	["syscall, without io_uring", false],
] as const) {
	describeTcpConformance(name, ({ descriptorLimit, ...options }) =>
		createSyscallEngine({
			...options,
			bindAddress: undefined,
			udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
			sweepMs: 50,
			workers: WORKERS,
			ioUring,
			// The suite counts what is left for relaying.
			...(descriptorLimit === undefined
				? {}
				: { descriptorLimit: descriptorLimit + WORKERS * WORKER_DESCRIPTORS }),
		}),
	);
}
