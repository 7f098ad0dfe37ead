import type { SendCallback, Sender } from "../udp/datagram-socket.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { areSameEnds, EndsSender, hashOfEnds } from "./datagram-ends.ts";
import { systemError } from "./system-error.ts";

/** Datagrams that one call reads or sends. */
const SLOTS = 32;

/** No datagram is longer: 65,535 of an IPv6 jumbo-less packet, less the headers. */
const SLOT_BYTES = 65_536;

/** Senders that are kept; beyond, all are forgotten and come again. */
const MAX_KNOWN = 8_192;

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
	/** By {@link hashOfEnds}; of two with the same hash the one that came last. */
	readonly #known = new Map<number, EndsSender>();

	/** @returns how many datagrams there are, or -errno. */
	receive(fd: number): number {
		return this.#in.receive(fd);
	}

	datagram(slot: number): Buffer {
		return this.#in.datagram(slot);
	}

	/** The same object as long as it is known. */
	sender(slot: number): Sender {
		const ends = this.#in.ends(slot);
		const hash = hashOfEnds(ends);
		const known = this.#known.get(hash);
		return known !== undefined && areSameEnds(known.ends, ends) ? known : this.#learn(hash, ends);
	}

	/**
	 * Gathers a datagram to a client; `onSent` is told before or at the next {@link flush}.
	 *
	 * @param to of {@link sender}.
	 */
	send(fd: number, datagram: Buffer, to: Sender, onSent: SendCallback): void {
		if (!(to instanceof EndsSender)) throw new TypeError(`Cannot answer ${to.key}: unknown`);
		if (this.#outFd !== fd || this.#outCount === SLOTS) this.flush();
		this.#outFd = fd;
		this.#out.fill(this.#outCount, datagram, to.ends);
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

	#learn(hash: number, ends: Int32Array): EndsSender {
		const sender = new EndsSender(ends);
		if (this.#known.size >= MAX_KNOWN) this.#known.clear();
		this.#known.set(hash, sender);
		return sender;
	}
}
