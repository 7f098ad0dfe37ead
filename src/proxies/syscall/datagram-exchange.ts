import { systemError } from "../../system/system-error.ts";
import type { SendCallback, Sender } from "../udp/datagram-socket.ts";
import type { CallOwner, CallQueue } from "./call-queue.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { areSameEnds, EndsSender, hashOfEnds } from "./datagram-ends.ts";

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
	readonly #calls: CallQueue;
	readonly #in = new DatagramBatch(SLOTS, SLOT_BYTES);
	/** Of sockets that have one datagram each. */
	readonly #singles = new DatagramBatch(SLOTS, SLOT_BYTES);
	/** Slots of `singles` that are in use since that {@link CallQueue.runs}. */
	#singleCount = 0;
	#singleRun = 0;
	readonly #out = new DatagramBatch(SLOTS, SLOT_BYTES);
	readonly #callbacks: SendCallback[] = [];
	/** Whose datagrams wait in `out`; they are of one listener at a time. */
	#outFd = -1;
	#outCount = 0;
	/** By {@link hashOfEnds}; of two with the same hash the one that came last. */
	readonly #known = new Map<number, EndsSender>();

	constructor(calls: CallQueue) {
		this.#calls = calls;
	}

	/** @returns how many datagrams there are, or -errno. */
	receive(fd: number): number {
		// What the former ones have queued to be sent is sent from the same memory.
		this.#calls.run();
		return this.#in.receive(fd);
	}

	datagram(slot: number): Buffer {
		return this.#in.datagram(slot);
	}

	/** The same object as long as it is known. */
	sender(slot: number): Sender {
		return this.#senderOf(this.#in.ends(slot));
	}

	/** Queues the receiving of one datagram: its owner is told of the slot that {@link takeSingle} wants. */
	receiveSingle(fd: number, owner: CallOwner): void {
		// Before a slot is taken: it is free again when calls have been made.
		if (this.#singleCount === SLOTS) this.#calls.run();
		this.#calls.makeRoom();
		if (this.#singleRun !== this.#calls.runs) this.#singleCount = 0;
		this.#singleRun = this.#calls.runs;
		const slot = this.#singleCount;
		this.#singleCount += 1;
		const batch = this.#singles;
		batch.prepare(slot);
		this.#calls.recvmsg(fd, batch.headerOf(slot), batch.headerAddressOf(slot), slot, owner);
	}

	/** @returns a datagram that was received to the slot. */
	takeSingle(slot: number, bytes: number): Buffer {
		this.#singles.noteReceived(slot, bytes);
		return this.#singles.datagram(slot);
	}

	/** Of {@link takeSingle}. @param last who sent the one before, most likely the same. */
	singleSender(slot: number, last: Sender | undefined): Sender {
		const ends = this.#singles.ends(slot);
		if (last instanceof EndsSender && areSameEnds(last.ends, ends)) return last;
		return this.#senderOf(ends);
	}

	/** Makes the calls that are queued. */
	settle(): void {
		this.#calls.run();
	}

	/**
	 * To be called before a datagram of a sender is handed on: what the one before it has queued is made, so that
	 * neither waits for the other.
	 */
	settleBefore(sender: Sender): void {
		if (!(sender instanceof EndsSender)) return;
		if (sender.lastRun === this.#calls.runs) this.#calls.run();
		sender.lastRun = this.#calls.runs;
	}

	/**
	 * Sends a datagram of {@link receive} with the next calls that are made.
	 *
	 * @returns false for another one.
	 */
	sendSoon(fd: number, datagram: Buffer, owner: CallOwner): boolean {
		const address = this.#in.addressOf(datagram);
		if (address === undefined) return false;
		this.#calls.sendDatagram(fd, datagram, address, owner);
		return true;
	}

	#senderOf(ends: Int32Array): Sender {
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
