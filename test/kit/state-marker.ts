import type { Agent } from "./agent.ts";
import { rawService, rawSlice } from "./raw-objects.ts";

/*
 * Tells when the packet rules of a state are in force. Looking at what the test is about would not do:
 * it may be meant to stay as it was.
 */

export const MARKER_NAMESPACE = "marker";
const ADDRESSES = ["10.96.255.1", "fd10:96::ffff"];

/** That a port is refused is no sign: so is every port that a ClusterIP does not have. */
const isServed = (round: number): boolean => round % 2 === 0;

/**
 * A Service that leads to ep1 in even rounds, and is refused in odd ones. To be served beside a state's own
 * objects; every state needs the number after the last one's.
 */
export function stateMarker(round: number): unknown[] {
	const common = { namespace: MARKER_NAMESPACE, name: "marker" };
	const ports = [{ name: "p", port: 80 }];
	const slices = (["IPv4", "IPv6"] as const).map((addressType) =>
		rawSlice({
			...common,
			name: addressType.toLowerCase(),
			serviceName: common.name,
			addressType,
			ports: [{ name: "p", port: 8080 }],
			endpoints: isServed(round) ? [addressType === "IPv4" ? "10.2.1.2" : "fd10:2:1::2"] : [],
		}),
	);
	return [rawService({ ...common, clusterIps: ADDRESSES, ports }), ...slices];
}

/** Rejects while the state of that round is not in force. ep1 has to greet with its name on port 8080. */
export async function expectState(from: Agent, round: number): Promise<void> {
	const wanted = isServed(round) ? "ep1" : "ECONNREFUSED";
	for (const address of ADDRESSES) {
		// oxlint-disable-next-line no-await-in-loop -- the second hardly ever waits
		const [result] = await from.tcp({ address, port: 80, timeoutMs: 500 });
		const got = result?.error ?? result?.answer;
		if (got !== wanted) {
			throw new Error(`State ${round} is not in force: wanted ${wanted} of ${address}, got ${got}`);
		}
	}
}
