import ipaddr from "ipaddr.js";

import type { IpAddress } from "./address.ts";

/** Ranges (by ipaddr.js's names) that the API refuses for endpoints, as we call them to people. */
const REFUSED_RANGES: ReadonlyMap<string, string> = new Map([
	["unspecified", "unspecified"],
	["loopback", "loopback"],
	["linkLocal", "link-local"],
	["multicast", "multicast"],
]);

/** Why no endpoint may have this address ("loopback"), or undefined when it may. */
export function whyNoEndpoint(address: IpAddress): string | undefined {
	// 0.0.0.0 alone is unspecified to the API; ipaddr.js calls all of 0.0.0.0/8 so.
	if (address.startsWith("0.") && address !== "0.0.0.0") return undefined;
	return REFUSED_RANGES.get(ipaddr.parse(address).range());
}

/**
 * Why no Service may have this address, or undefined when it may.
 *
 * A cluster hands out addresses of its Service range only; a file can name any, and a rule for
 * 127.0.0.1 would take the host's own traffic.
 */
export function whyNoClusterIp(address: IpAddress): string | undefined {
	return address === "255.255.255.255" ? "broadcast" : whyNoEndpoint(address);
}
