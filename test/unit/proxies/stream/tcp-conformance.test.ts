import { createStreamEngine } from "../../../../src/proxies/stream/stream-engine.ts";
import { describeTcpConformance } from "../../../conformance/tcp.ts";

describeTcpConformance("stream", ({ descriptorLimit, ...options }) =>
	createStreamEngine({
		...options,
		bindAddress: undefined,
		udpAddress: () => undefined,
		udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
		sweepMs: 50,
		...(descriptorLimit === undefined ? {} : { descriptorLimit }),
	}),
);
