import type { SendCallback, Sender } from "../udp/datagram-socket.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { AF_INET6, SOCKET_ADDRESS_BYTES } from "./libc.ts";
import { SocketAddress } from "./socket-address.ts";
import { systemError } from "./system-error.ts";

/** Datagrams that one call reads or sends. */
const SLOTS = 32;

/** No datagram is longer: 65,535 of an IPv6 jumbo-less packet, less the headers. */
const SLOT_BYTES = 65_536;

/** Senders that are kept; beyond, all are forgotten and come again. */
const MAX_KNOWN = 8_192;

/** Family, port and address of a sockaddr_in; the rest is padding. */
const IPV4_KEY_BYTES = 8;

/** A sender in the kernel's form and in ours. */
class KnownSender implements Sender {
	readonly key: string;
	readonly name: SocketAddress = new SocketAddress();
	readonly address: string;
	readonly port: number;

	constructor(key: string, name: Buffer) {
		this.key = key;
		name.copy(this.name.bytes);
		this.address = this.name.address;
		this.port = this.name.port;
	}
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
	readonly #known = new Map<string, KnownSender>();

	/** @returns how many datagrams there are, or -errno. */
	receive(fd: number): number {
		return this.#in.receive(fd);
	}

	datagram(slot: number): Buffer {
		return this.#in.datagram(slot);
	}

	sender(slot: number): Sender {
		const name = this.#in.name(slot);
		// What is behind an IPv4 address is of somebody who was in the slot before.
		const length = name.readUInt16LE() === AF_INET6 ? SOCKET_ADDRESS_BYTES : IPV4_KEY_BYTES;
		const key = name.toString("latin1", 0, length);
		return this.#known.get(key) ?? this.#learn(key, name);
	}

	/**
	 * Gathers a datagram to a client; `onSent` is told before or at the next {@link flush}.
	 *
	 * @param to of {@link sender}.
	 */
	send(fd: number, datagram: Buffer, to: Sender, onSent: SendCallback): void {
		if (!(to instanceof KnownSender)) throw new TypeError(`Cannot answer ${to.key}: unknown`);
		if (this.#outFd !== fd || this.#outCount === SLOTS) this.flush();
		this.#outFd = fd;
		this.#out.fill(this.#outCount, datagram, to.name.bytes, to.name.length);
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

	#learn(key: string, name: Buffer): KnownSender {
		const known = new KnownSender(key, name);
		if (this.#known.size >= MAX_KNOWN) this.#known.clear();
		this.#known.set(key, known);
		return known;
	}
}
