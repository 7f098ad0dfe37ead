import ipaddr from "ipaddr.js";

import { type IpAddress, type IpFamily, parseIpAddress } from "./address.ts";

declare const ipRangeBrand: unique symbol;

/**
 * A range of IP addresses in CIDR notation, with no bit set behind the prefix: "10.244.0.0/16".
 *
 * Equal ranges are equal strings. Made only by {@link parseIpRange} and {@link rangeOf}.
 */
export type IpRange = string & { readonly [ipRangeBrand]: true };

const PREFIX = /^(?:0|[1-9]\d{0,2})$/;

/**
 * Bits behind the prefix are cleared, as kube-proxy does: "10.244.3.1/16" is "10.244.0.0/16".
 *
 * @returns undefined for anything that is not one address, a slash and a prefix length.
 */
export function parseIpRange(text: string): IpRange | undefined {
	const [addressText = "", prefixText = "", ...more] = text.split("/");
	const address = parseIpAddress(addressText);
	if (address === undefined || more.length > 0 || !PREFIX.test(prefixText)) return undefined;
	// An IPv4-mapped address would need its prefix translated; nobody writes ranges so.
	if (addressText.includes(":") !== address.includes(":")) return undefined;
	const prefix = Number(prefixText);
	if (prefix > bitsOf(address)) return undefined;
	const network = address.includes(":")
		? ipaddr.IPv6.networkAddressFromCIDR(`${address}/${prefix}`)
		: ipaddr.IPv4.networkAddressFromCIDR(`${address}/${prefix}`);
	const canonical = parseIpAddress(network.toString());
	// "::ffff:0:0/96" and the like: their network address reads as an IPv4 address.
	if (canonical === undefined || canonical.includes(":") !== address.includes(":"))
		return undefined;
	return branded(`${canonical}/${prefix}`);
}

/** The range that holds exactly this address. */
export function rangeOf(address: IpAddress): IpRange {
	return branded(`${address}/${bitsOf(address)}`);
}

export function familyOfRange(range: IpRange): IpFamily {
	return range.includes(":") ? "ipv6" : "ipv4";
}

/** False for an address of the other family. */
export function isInRange(address: IpAddress, range: IpRange): boolean {
	const [network = "", prefix] = range.split("/");
	if (address.includes(":") !== network.includes(":")) return false;
	return address.includes(":")
		? ipaddr.IPv6.parse(address).match(ipaddr.IPv6.parse(network), Number(prefix))
		: ipaddr.IPv4.parse(address).match(ipaddr.IPv4.parse(network), Number(prefix));
}

/** The broadcast address of an IPv4 subnet; undefined for IPv6 and for links between two hosts. */
export function broadcastOf(range: IpRange): IpAddress | undefined {
	const prefix = Number(range.split("/")[1]);
	if (range.includes(":") || prefix > 30) return undefined;
	return parseIpAddress(ipaddr.IPv4.broadcastAddressFromCIDR(range).toString());
}

export function isInAnyRange(address: IpAddress, ranges: readonly IpRange[]): boolean {
	return ranges.some((range) => isInRange(address, range));
}

function bitsOf(address: IpAddress): number {
	return address.includes(":") ? 128 : 32;
}

function branded(text: string): IpRange {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- callers have checked it
	return text as IpRange;
}
