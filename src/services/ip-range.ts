import ipaddr from "ipaddr.js";

import { type IpAddress, type IpFamily, parseIpAddress } from "./address.ts";

declare const ipRangeBrand: unique symbol;

/**
 * A range of IP addresses in CIDR notation, with no bit set behind the prefix: "10.244.0.0/16".
 *
 * Equal ranges are equal strings. Made only by {@link parseIpRange}, {@link rangeOf} and {@link rangeAround}.
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
	const canonical = networkOf(address, prefix);
	// "::ffff:0:0/96" and the like: their network address reads as an IPv4 address.
	if (canonical === undefined || canonical.includes(":") !== address.includes(":"))
		return undefined;
	return branded(`${canonical}/${prefix}`);
}

/** The range that holds exactly this address. */
export function rangeOf(address: IpAddress): IpRange {
	return branded(`${address}/${bitsOf(address)}`);
}

/**
 * The range of this size that holds the address.
 *
 * @param prefix in 0..32, or 0..128 for IPv6.
 */
export function rangeAround(address: IpAddress, prefix: number): IpRange {
	// Where the network address cannot be told from IPv4 ("::ffff:0:0"), the address alone is right, too.
	const network = networkOf(address, prefix);
	return network === undefined || network.includes(":") !== address.includes(":")
		? rangeOf(address)
		: branded(`${network}/${prefix}`);
}

/** The prefix's length: 16 of "10.96.0.0/16". */
export function prefixLengthOf(range: IpRange): number {
	return Number(range.split("/")[1]);
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
	const prefix = prefixLengthOf(range);
	if (range.includes(":") || prefix > 30) return undefined;
	return parseIpAddress(ipaddr.IPv4.broadcastAddressFromCIDR(range).toString());
}

export function isInAnyRange(address: IpAddress, ranges: readonly IpRange[]): boolean {
	return ranges.some((range) => isInRange(address, range));
}

function networkOf(address: IpAddress, prefix: number): IpAddress | undefined {
	const network = address.includes(":")
		? ipaddr.IPv6.networkAddressFromCIDR(`${address}/${prefix}`)
		: ipaddr.IPv4.networkAddressFromCIDR(`${address}/${prefix}`);
	return parseIpAddress(network.toString());
}

function bitsOf(address: IpAddress): number {
	return address.includes(":") ? 128 : 32;
}

function branded(text: string): IpRange {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- callers have checked it
	return text as IpRange;
}
