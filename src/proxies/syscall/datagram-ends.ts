import { type IpAddress, ipAddressOf } from "../../services/address.ts";
import { AF_INET6, IPPROTO_IPV6 } from "../../system/libc.ts";
import type { Sender } from "../udp/datagram-socket.ts";
import { SocketAddress } from "./socket-address.ts";

/*
 * The two ends of a datagram as recvmmsg tells them and sendmmsg takes them: the address of the other one, and in
 * the control data which of this node's addresses was asked. What came with a datagram is what its answer is sent
 * with.
 *
 * In 32-bit words, the same on x86-64 and arm64:
 *
 *    0 …  6  struct sockaddr_in6: family and port, flow label, address (4), scope; or
 *    0 …  1  struct sockaddr_in: family and port, address
 *    8 … 11  struct cmsghdr: length (2), level, type
 *   12 … 16  struct in6_pktinfo: this node's address (4), interface; or
 *   12 … 14  struct in_pktinfo: interface, this node's address, what the packet was sent to
 *
 * All other words are 0, and so are those from 8 on where nothing was told of this node's address: routing chooses
 * it for what is sent then.
 */

export const ENDS_WORDS = 18;
/** Where the control data begins; 64-bit words begin there, too. */
export const CONTROL_AT = 8;

const IPV4_NAME_WORDS = 2;
const SCOPE_AT = 6;
const LEVEL_AT = 10;
const IPV4_INTERFACE_AT = 12;
const IPV4_OWN_AT = 13;
const IPV6_OWN_AT = 12;
const IPV6_INTERFACE_AT = 16;

/** The first ten bits of an address, in a word that holds network order, and those of fe80::/10. */
const PREFIX_MASK = 0xc0ff;
const LINK_LOCAL = 0x80fe;

/** Spreads similar words over all bits (the golden ratio, as in many hashes). */
const SPREAD = 0x9e37_79b1;
/** A small integer to the engine. */
const HASH_MASK = 0x3fff_ffff;

/** Ends of what is sent to an address from whichever of ours. */
export function endsTo({ bytes }: SocketAddress): Int32Array {
	const ends = new Int32Array(ENDS_WORDS);
	new Uint8Array(ends.buffer).set(bytes);
	return ends;
}

/**
 * Clears what the kernel did not write, or what is not to be sent back, so that the same ends are the same words.
 *
 * Not sent back is the interface, since the way back need not be the way that a datagram came. Only with a link-local
 * address of ours it is: the kernel refuses to send from that without it.
 *
 * @param ends as they were received.
 */
export function settleEnds(ends: Int32Array, hasControl: boolean): void {
	if (!isIpv6(ends)) clear(ends, IPV4_NAME_WORDS, CONTROL_AT);
	if (!hasControl) clear(ends, CONTROL_AT, ENDS_WORDS);
	else if (ends[LEVEL_AT] !== IPPROTO_IPV6) {
		ends[IPV4_INTERFACE_AT] = 0;
		clear(ends, IPV4_OWN_AT + 1, ENDS_WORDS);
	} else if (!isLinkLocal(ends)) ends[IPV6_INTERFACE_AT] = 0;
}

/** Quicker than fill() for so few. */
function clear(ends: Int32Array, from: number, to: number): void {
	for (let word = from; word < to; word += 1) ends[word] = 0;
}

export function isIpv6(ends: Int32Array): boolean {
	return ((ends[0] ?? 0) & 0xffff) === AF_INET6;
}

export function areSameEnds(a: Int32Array, b: Int32Array): boolean {
	for (let word = 0; word < ENDS_WORDS; word += 1) if (a[word] !== b[word]) return false;
	return true;
}

/** The same for the same ends, and rarely for others. */
export function hashOfEnds(ends: Int32Array): number {
	let hash = 0;
	for (let word = 0; word < ENDS_WORDS; word += 1) {
		hash = Math.imul(hash ^ (ends[word] ?? 0), SPREAD);
		hash ^= hash >>> 15;
	}
	return hash & HASH_MASK;
}

/** The other end of datagrams that came, and the address of this node that it asked. */
export class EndsSender implements Sender {
	/** As many as the {@link CallQueue.runs} were when the last datagram of it was handed on. */
	lastRun = -1;
	readonly key: string;
	readonly address: IpAddress;
	readonly port: number;
	/** Its own: nothing else writes there. */
	readonly ends: Int32Array;

	/** @param ends settled; copied. */
	constructor(ends: Int32Array) {
		this.ends = ends.slice();
		const name = new SocketAddress();
		name.bytes.set(new Uint8Array(this.ends.buffer, 0, name.bytes.length));
		this.address = name.address;
		this.port = name.port;
		const scope = isIpv6(ends) ? `%${ends[SCOPE_AT]}` : "";
		this.key = `${this.address}${scope} ${this.port} ${this.asked} ${ends[IPV6_INTERFACE_AT]}`;
	}

	/** Undefined where it was not told. */
	get asked(): IpAddress | undefined {
		const { ends } = this;
		if (ends[CONTROL_AT] === 0) return undefined;
		const [at, bytes] = ends[LEVEL_AT] === IPPROTO_IPV6 ? [IPV6_OWN_AT, 16] : [IPV4_OWN_AT, 4];
		return ipAddressOf(new Uint8Array(ends.buffer, at * 4, bytes));
	}
}

function isLinkLocal(ends: Int32Array): boolean {
	return ((ends[IPV6_OWN_AT] ?? 0) & PREFIX_MASK) === LINK_LOCAL;
}
