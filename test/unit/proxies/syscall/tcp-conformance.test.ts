import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { describeTcpConformance } from "../../../conformance/tcp.ts";

describeTcpConformance("syscall", ({ descriptorLimit, ...options }) =>
	createSyscallEngine({
		...options,
		bindAddress: undefined,
		udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
		sweepMs: 50,
		workers: 2,
		...(descriptorLimit === undefined ? {} : { descriptorLimit }),
	}),
);
