import type { RemoteInfo } from "node:dgram";
import { type IpFamily, ipFamilyOf, parseIpAddress } from "../../services/address.ts";
import type { SendCallback } from "../udp/datagram-socket.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { SOCKET_ADDRESS_BYTES } from "./libc.ts";
import { SocketAddress } from "./socket-address.ts";
import { systemError } from "./system-error.ts";

/** Datagrams that one call reads or sends. */
const SLOTS = 32;

/** No datagram is longer: 65,535 of an IPv6 jumbo-less packet, less the headers. */
const SLOT_BYTES = 65_536;

/** Senders whose addresses are kept in both forms; beyond, all are forgotten and come again. */
const MAX_KNOWN = 8_192;

/** Family, port and address of a sockaddr_in; the rest is padding. */
const IPV4_KEY_BYTES = 8;

/** An address in the kernel's form and in ours. */
interface Known {
	readonly info: RemoteInfo;
	readonly name: Buffer;
	readonly nameLength: number;
}

/**
 * The buffers that all datagrams of one thread go through.
 *
 * What is received is good until the next {@link receive}: whoever keeps it copies it. What is sent to
 * clients is gathered and goes out with one call for each listener, at {@link flush} or when it is full.
 */
export class DatagramExchange {
	readonly slots: number = SLOTS;
	readonly #in = new DatagramBatch(SLOTS, SLOT_BYTES);
	readonly #out = new DatagramBatch(SLOTS, SLOT_BYTES);
	readonly #callbacks: SendCallback[] = [];
	/** Whose datagrams wait in `out`; they are of one listener at a time. */
	#outFd = -1;
	#outCount = 0;
	readonly #known = new Map<string, Known>();

	/** @returns how many datagrams there are, or -errno. */
	receive(fd: number): number {
		return this.#in.receive(fd);
	}

	datagram(slot: number): Buffer {
		return this.#in.datagram(slot);
	}

	sender(slot: number, family: IpFamily): RemoteInfo {
		const name = this.#in.name(slot);
		const key = name.toString(
			"latin1",
			0,
			family === "ipv6" ? SOCKET_ADDRESS_BYTES : IPV4_KEY_BYTES,
		);
		return (this.#known.get(key) ?? this.#learn(key, name)).info;
	}

	/** Gathers a datagram to a client; `onSent` is told before or at the next {@link flush}. */
	send(fd: number, datagram: Buffer, address: string, port: number, onSent: SendCallback): void {
		const known = this.#known.get(textKey(address, port)) ?? this.#learnText(address, port);
		if (known === undefined) {
			onSent(new Error(`Cannot send to "${address}": no IP address`), 0);
			return;
		}
		if (this.#outFd !== fd || this.#outCount === SLOTS) this.flush();
		this.#outFd = fd;
		this.#out.fill(this.#outCount, datagram, known.name, known.nameLength);
		this.#callbacks[this.#outCount] = onSent;
		this.#outCount += 1;
	}

	/** Sends what has been gathered. */
	flush(): void {
		const count = this.#outCount;
		this.#outCount = 0;
		let done = 0;
		while (done < count) {
			const sent = this.#out.send(this.#outFd, done, count - done);
			// The first of them is the one that failed.
			if (sent <= 0) {
				this.#callbacks[done]?.(systemError("sendmmsg", sent), 0);
				done += 1;
			} else {
				done += sent;
			}
		}
	}

	/** Drops what waits for a socket that is to be closed. */
	forget(fd: number): void {
		if (this.#outFd === fd) this.flush();
	}

	#learn(key: string, name: Buffer): Known {
		const socketAddress = new SocketAddress();
		name.copy(socketAddress.bytes);
		const { address, port, length } = socketAddress;
		const family = ipFamilyOf(address) === "ipv6" ? "IPv6" : "IPv4";
		const known: Known = {
			info: { address, port, family, size: 0 },
			name: socketAddress.bytes,
			nameLength: length,
		};
		if (this.#known.size >= MAX_KNOWN) this.#known.clear();
		this.#known.set(key, known);
		// The way back: with its zone, which the text does not have.
		this.#known.set(textKey(address, port), known);
		return known;
	}

	#learnText(text: string, port: number): Known | undefined {
		const address = parseIpAddress(text);
		if (address === undefined) return undefined;
		const { bytes } = new SocketAddress().set(ipFamilyOf(address), address, port);
		return this.#learn(
			bytes.toString("latin1", 0, address.includes(":") ? SOCKET_ADDRESS_BYTES : IPV4_KEY_BYTES),
			bytes,
		);
	}
}

function textKey(address: string, port: number): string {
	return `${address}:${port}`;
}
