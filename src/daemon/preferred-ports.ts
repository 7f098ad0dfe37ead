import type { PreferredPorts } from "../proxies/engine.ts";
import type { PreviousBinding } from "../rules/previous.ts";
import type { Port } from "../services/port.ts";
import type { ServicePortKey } from "../services/service-port.ts";

/**
 * The proxy ports that a predecessor's rules in the kernel lead to: taken again, nobody notices the
 * change; left alone by all others, no client reaches a wrong Service meanwhile.
 */
export function preferredPortsOf(previous: readonly PreviousBinding[]): PreferredPorts {
	const ports = new Map<ServicePortKey, Port>();
	for (const { key, proxyPort } of previous) {
		if (key !== undefined && !ports.has(key)) ports.set(key, proxyPort);
	}
	return ports;
}
