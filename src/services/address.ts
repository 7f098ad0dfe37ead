import ipaddr from "ipaddr.js";

export type IpFamily = "ipv4" | "ipv6";

const DOT = ".".charCodeAt(0);
const DIGIT_ZERO = "0".charCodeAt(0);

/** Both families, in the order in which we handle and print them. */
export const IP_FAMILIES = ["ipv4", "ipv6"] as const satisfies readonly IpFamily[];

declare const ipAddressBrand: unique symbol;

/**
 * One IP address in canonical text: dotted quad, or RFC 5952 for IPv6 ("fd10::1").
 *
 * Equal addresses are equal strings; an IPv4-mapped IPv6 address ("::ffff:10.0.0.1") is the IPv4
 * address. Has no zone ("%eth0") and no prefix length. Made only by {@link parseIpAddress} and
 * {@link ipAddressOf}.
 */
export type IpAddress = string & { readonly [ipAddressBrand]: true };

/** @returns undefined for anything that is not exactly one IP address (zones and "010.0.0.1" too). */
export function parseIpAddress(text: string): IpAddress | undefined {
	if (text.includes("%")) return undefined;
	if (ipaddr.IPv4.isValidFourPartDecimal(text)) return branded(text);
	if (!text.includes(":") || !ipaddr.IPv6.isValid(text)) return undefined;
	const parsed = ipaddr.IPv6.parse(text);
	return branded(
		parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.toRFC5952String(),
	);
}

/**
 * The address of these bytes, in network order: 4 or 16 of them.
 *
 * @throws {Error} for another number of bytes.
 */
export function ipAddressOf(bytes: Uint8Array): IpAddress {
	if (bytes.length === 4) return branded(`${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`);
	const parsed = new ipaddr.IPv6([...bytes]);
	return branded(
		parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.toRFC5952String(),
	);
}

/** In network order: 4 or 16 bytes. */
export function ipBytesOf(address: IpAddress): readonly number[] {
	return ipaddr.parse(address).toByteArray();
}

export function ipFamilyOf(address: IpAddress): IpFamily {
	return address.includes(":") ? "ipv6" : "ipv4";
}

/** "10.2.1.2:8080", "[fd10::1]:8080". */
export function formatSocketAddress(address: string, port: number): string {
	return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Numeric order, IPv4 before IPv6; for stable output. */
export function compareIpAddresses(a: IpAddress, b: IpAddress): number {
	if (a === b) return 0;
	// Nearly every comparison is this one, and a plan makes tens of thousands of them.
	if (!a.includes(":") && !b.includes(":")) return ipv4Number(a) - ipv4Number(b);
	const left = ipaddr.parse(a).toByteArray();
	const right = ipaddr.parse(b).toByteArray();
	if (left.length !== right.length) return left.length - right.length;
	for (const [index, byte] of left.entries()) {
		const difference = byte - (right[index] ?? 0);
		if (difference !== 0) return difference;
	}
	return 0;
}

/** The 32 bits of a dotted quad as a number. */
function ipv4Number(address: IpAddress): number {
	let number = 0;
	let byte = 0;
	for (let index = 0; index < address.length; index += 1) {
		const code = address.charCodeAt(index);
		if (code === DOT) {
			number = number * 256 + byte;
			byte = 0;
		} else {
			byte = byte * 10 + (code - DIGIT_ZERO);
		}
	}
	return number * 256 + byte;
}

function branded(text: string): IpAddress {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- callers have checked it
	return text as IpAddress;
}
