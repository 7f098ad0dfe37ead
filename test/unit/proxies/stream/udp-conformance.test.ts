import { createStreamEngine } from "../../../../src/proxies/stream/stream-engine.ts";
import { ipFamilyOf } from "../../../../src/services/address.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { describeUdpConformance } from "../../../conformance/udp.ts";

describeUdpConformance("UDP through the stream engine", ({ udp, hooks, nodeAddress }) =>
	createStreamEngine({
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
	}),
);
