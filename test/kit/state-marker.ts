import type { Agent } from "./agent.ts";
import { rawService, rawSlice } from "./raw-objects.ts";

/*
 * Tells when the packet rules of a state are in force. Looking at what the test is about would not do:
 * it may be meant to stay as it was.
 */

export const MARKER_NAMESPACE = "marker";
const ADDRESSES = ["10.96.255.1", "fd10:96::ffff"];

/**
 * Another one than in the state before, so that the nat table has to change: it is the last one that does. That a port
 * is refused would be no sign: the filter table says that, a moment earlier.
 */
const portOf = (round: number): number => 80 + (round % 2);

/** A Service that leads to ep1. To be served beside a state's own objects; every state needs the number after the last one's. */
export function stateMarker(round: number): unknown[] {
	const common = { namespace: MARKER_NAMESPACE, name: "marker" };
	const slices = (["IPv4", "IPv6"] as const).map((addressType) =>
		rawSlice({
			...common,
			name: addressType.toLowerCase(),
			serviceName: common.name,
			addressType,
			ports: [{ name: "p", port: 8080 }],
			endpoints: [addressType === "IPv4" ? "10.2.1.2" : "fd10:2:1::2"],
		}),
	);
	const ports = [{ name: "p", port: portOf(round) }];
	return [rawService({ ...common, clusterIps: ADDRESSES, ports }), ...slices];
}

/** Rejects while the state of that round is not in force. ep1 has to greet with its name on port 8080. */
export async function expectState(from: Agent, round: number): Promise<void> {
	const port = portOf(round);
	for (const address of ADDRESSES) {
		// oxlint-disable-next-line no-await-in-loop -- the second hardly ever waits
		const [result] = await from.tcp({ address, port, timeoutMs: 500 });
		const got = result?.error ?? result?.answer;
		if (got !== "ep1") {
			throw new Error(
				`State ${round} is not in force: wanted ep1 of ${address}:${port}, got ${got}`,
			);
		}
	}
}
