import type { Protocol } from "../services/service-port.ts";

/** In seconds: same node, same zone, far, lost packets, each of the default dial timeouts. */
export const CONNECT_BOUNDS_SECONDS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5];

/** What is known of one ServicePort since its series began. */
export interface ServiceTally {
	/** `service="shop/cart:http",protocol="tcp"`. */
	readonly labels: string;
	/** False once the Service has gone. */
	wanted: boolean;
	active: number;
	bytesIn: number;
	bytesOut: number;
	readonly ends: Map<string, number>;
	readonly attempts: Map<string, number>;
	/** One per bound, each without the smaller ones. */
	readonly connectBuckets: number[];
	connectCount: number;
	connectSeconds: number;
}

export function newServiceTally(service: string, protocol: Protocol): ServiceTally {
	return {
		labels: `service="${escapeLabel(service)}",protocol="${protocol}"`,
		wanted: false,
		active: 0,
		bytesIn: 0,
		bytesOut: 0,
		// There from the start with 0: a counter that begins with 1 hides its first increase.
		ends: new Map([[protocol === "tcp" ? "closed" : "idle", 0]]),
		attempts: new Map([["connected", 0]]),
		connectBuckets: CONNECT_BOUNDS_SECONDS.map(() => 0),
		connectCount: 0,
		connectSeconds: 0,
	};
}

/** As the text format wants it. */
function escapeLabel(value: string): string {
	return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
