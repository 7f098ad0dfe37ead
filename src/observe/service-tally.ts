import { type ConnectionCounts, newConnectionCounts } from "../services/connection-counts.ts";
import type { Protocol } from "../services/service-port.ts";

/** What is known of one ServicePort since its series began. */
export interface ServiceTally {
	/** `service="shop/cart:http",protocol="tcp"`. */
	readonly labels: string;
	/** False once the Service has gone. */
	wanted: boolean;
	readonly counts: ConnectionCounts;
}

export function newServiceTally(service: string, protocol: Protocol): ServiceTally {
	const counts = newConnectionCounts();
	// There from the start with 0: a counter that begins with 1 hides its first increase.
	counts.ends.set(protocol === "tcp" ? "closed" : "idle", 0);
	counts.attempts.set("connected", 0);
	return {
		labels: `service="${escapeLabel(service)}",protocol="${protocol}"`,
		wanted: false,
		counts,
	};
}

/** Connections and flows that live now. */
export function activeOf({ counts: { started, ended } }: ServiceTally): number {
	// One that had begun before the series did has ended, but not begun.
	return Math.max(0, started - ended);
}

/** As the text format wants it. */
function escapeLabel(value: string): string {
	return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
