import {
	addressOf,
	close,
	EPOLL_CTL_ADD,
	EpollEvents,
	epollAdd,
	type Memory,
	MSG_DONTWAIT,
	MSG_NOSIGNAL,
	recv,
	recvmsg,
	sendWith,
} from "../../system/libc.ts";
import { IORING_OP, type IoRing } from "./io-ring.ts";

/** One read of TCP: what most requests and answers fit in. */
export const READ_BYTES: number = 64 * 1024;

/** Reads of TCP that are made together: what their memory holds should fit in a cache. */
const READS = 32;

/** Not a power of two: slots at the same place of a page would press one another out of the cache. */
const READ_STEP_BYTES: number = READ_BYTES + 320;

/** A power of two, as a ring wants it. */
export const MAX_QUEUED_CALLS = 256;

/** With so many, those that wait are made first: so there is room for one more by the owner of each. */
const FULL_AT: number = MAX_QUEUED_CALLS / 2;

const NO_MEMORY = new Uint32Array(0);

/** A call that can wait in the queue, by its number in io_uring. */
export type QueuedOperation = (typeof IORING_OP)[keyof typeof IORING_OP];

/** Is told what its call returned; may queue further calls then. */
export interface CallOwner {
	/**
	 * @param result what the call returned, or -errno.
	 * @param slot as the call was queued with: of a {@link CallQueue.recv}, what {@link CallQueue.bytesOf} takes.
	 */
	onCall(operation: QueuedOperation, result: number, slot: number): void;
}

/** Calls that wait, in order, and room for one that cannot; what the numbers mean depends on the call. */
class Waiting {
	count = 0;
	readonly operations: QueuedOperation[] = [];
	readonly fds: Int32Array = new Int32Array(MAX_QUEUED_CALLS + 1);
	readonly memories: Memory[] = [];
	readonly addresses: Float64Array = new Float64Array(MAX_QUEUED_CALLS + 1);
	readonly lengths: Int32Array = new Int32Array(MAX_QUEUED_CALLS + 1);
	readonly flags: Int32Array = new Int32Array(MAX_QUEUED_CALLS + 1);
	readonly slots: Int32Array = new Int32Array(MAX_QUEUED_CALLS + 1);
	readonly owners: (CallOwner | undefined)[] = [];
	/** What epoll is told of a descriptor that is added to it, for a ring. */
	readonly #additions = new EpollEvents(MAX_QUEUED_CALLS);
	readonly #additionsAddress: number = addressOf(this.#additions.words);

	/** Makes a call. @returns its result, or -errno. */
	make(index: number): number {
		const fd = this.fds[index] ?? -1;
		const memory = this.memories[index] ?? NO_MEMORY;
		const length = this.lengths[index] ?? 0;
		const flags = this.flags[index] ?? 0;
		const operation = this.operations[index] ?? IORING_OP.close;
		switch (operation) {
			case IORING_OP.recv:
				return recv(fd, memory, length);
			case IORING_OP.send:
				return sendWith(fd, memory, length, flags);
			case IORING_OP.recvmsg:
				return recvmsg(fd, memory);
			case IORING_OP.epollCtl:
				return epollAdd(fd, this.slots[index] ?? -1, length, flags);
			case IORING_OP.close:
				return close(fd);
		}
	}

	tell(index: number, result: number): void {
		const operation = this.operations[index] ?? IORING_OP.close;
		this.owners[index]?.onCall(operation, result, this.slots[index] ?? -1);
	}

	/** Queues a call of these in a ring. */
	put(ring: IoRing, index: number): void {
		const operation = this.operations[index] ?? IORING_OP.close;
		const fd = this.fds[index] ?? -1;
		const length = this.lengths[index] ?? 0;
		const flags = this.flags[index] ?? 0;
		if (operation === IORING_OP.epollCtl) {
			const target = this.slots[index] ?? -1;
			const address = this.#additionsAddress + this.#additions.set(index, target, length, flags);
			ring.add(operation, fd, address, EPOLL_CTL_ADD, 0, target);
		} else {
			ring.add(operation, fd, this.addresses[index] ?? 0, length, flags, 0);
		}
	}
}

/**
 * System calls of one thread that can wait for one another, so that one entry into the kernel makes many.
 *
 * Entering and leaving the kernel, and the way there from JavaScript, often cost more than the call itself. What
 * is queued here is made by {@link run}: through a ring where the kernel has one, else one by one, in order. None
 * of the calls waits for anything: all are on non-blocking descriptors.
 */
export class CallQueue {
	readonly #ring: IoRing | undefined;
	readonly #onClose: (fd: number) => void;
	readonly #memory: Buffer = Buffer.allocUnsafeSlow(READS * READ_STEP_BYTES);
	readonly #address: number = addressOf(this.#memory);
	readonly #reads: readonly Buffer[];
	#waiting = new Waiting();
	#others = new Waiting();
	/** How often {@link run} was called: what was queued before has been done then. */
	runs = 0;
	#readsUsed = 0;
	#isRunning = false;
	#isBroken = false;

	/** @param ring undefined: calls are made one by one. */
	constructor(ring: IoRing | undefined, onClose: (fd: number) => void = () => {}) {
		this.#ring = ring;
		this.#onClose = onClose;
		this.#reads = Array.from({ length: READS }, (_, slot) =>
			this.#memory.subarray(slot * READ_STEP_BYTES, slot * READ_STEP_BYTES + READ_BYTES),
		);
	}

	/** True where many calls cost hardly more than one. */
	get isRing(): boolean {
		return this.#ring !== undefined;
	}

	/** What a {@link recv} has read: good until {@link run} returns. */
	bytesOf(slot: number): Buffer {
		const bytes = this.#reads[slot];
		if (bytes === undefined) throw new RangeError(`Cannot use slot ${slot} of ${READS}`);
		return bytes;
	}

	/** Reads up to READ_BYTES. Not to be called from {@link CallOwner.onCall}, whose slots are in use. */
	recv(fd: number, owner: CallOwner): void {
		if (this.#isRunning) throw new Error("Cannot queue a read while calls are made");
		// Before a slot is taken: it is free again when calls have been made.
		if (this.#readsUsed === READS) this.run();
		this.makeRoom();
		const slot = this.#readsUsed;
		this.#readsUsed += 1;
		const index = this.#begin(IORING_OP.recv, fd, slot, owner);
		this.#point(index, this.bytesOf(slot), this.#addressOf(slot));
		this.#limit(index, READ_BYTES, MSG_DONTWAIT);
		this.#commit(index);
	}

	/** Sends the first bytes of what a {@link recv} has read. @param flags MSG_MORE, or 0. */
	sendRead(fd: number, slot: number, length: number, flags: number, owner: CallOwner): void {
		const index = this.#begin(IORING_OP.send, fd, slot, owner);
		this.#point(index, this.bytesOf(slot), this.#addressOf(slot));
		this.#limit(index, length, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
		this.#commit(index);
	}

	/** @param address of the datagram's memory, which stays as it is until {@link run} returns. */
	sendDatagram(fd: number, datagram: Buffer, address: number, owner: CallOwner): void {
		this.makeRoom();
		const index = this.#begin(IORING_OP.send, fd, -1, owner);
		this.#point(index, datagram, address);
		this.#limit(index, datagram.length, MSG_DONTWAIT | MSG_NOSIGNAL);
		this.#commit(index);
	}

	/**
	 * Receives one datagram.
	 *
	 * @param header a `struct mmsghdr`, which begins with a `struct msghdr`. Whoever chooses one that is free
	 *   again after {@link run} calls {@link makeRoom} before.
	 */
	recvmsg(fd: number, header: Uint32Array, address: number, slot: number, owner: CallOwner): void {
		const index = this.#begin(IORING_OP.recvmsg, fd, slot, owner);
		this.#point(index, header, address);
		this.#limit(index, 1, MSG_DONTWAIT);
		this.#commit(index);
	}

	/** As epollAdd in libc.ts; the owner is told of it with the descriptor as the slot. */
	epollAdd(epollFd: number, fd: number, events: number, tag: number, owner: CallOwner): void {
		this.makeRoom();
		const index = this.#begin(IORING_OP.epollCtl, epollFd, fd, owner);
		this.#limit(index, events, tag);
		this.#commit(index);
	}

	close(fd: number): void {
		this.makeRoom();
		const index = this.#begin(IORING_OP.close, fd, -1, undefined);
		// The kernel refuses a close that says anything more.
		this.#point(index, NO_MEMORY, 0);
		this.#limit(index, 0, 0);
		this.#commit(index);
	}

	/** Makes the calls that wait, where they are so many that there is hardly room for more. */
	makeRoom(): void {
		if (this.#waiting.count >= FULL_AT) this.run();
	}

	/** Makes all calls that wait, and those that their owners queue then. */
	run(): void {
		if (this.#isRunning) return;
		this.#isRunning = true;
		this.runs += 1;
		try {
			while (this.#waiting.count > 0) this.#runWaiting();
		} finally {
			this.#readsUsed = 0;
			this.#isRunning = false;
		}
	}

	/** Gives the ring back; nothing may be queued any more. */
	release(): void {
		if (this.#ring === undefined) return;
		this.#onClose(this.#ring.fd);
		this.#ring.close();
	}

	#addressOf(slot: number): number {
		return this.#address + slot * READ_STEP_BYTES;
	}

	/**
	 * To be followed by {@link #commit}: nothing is made between the two.
	 *
	 * @returns where it is in the queue.
	 */
	#begin(
		operation: QueuedOperation,
		fd: number,
		slot: number,
		owner: CallOwner | undefined,
	): number {
		const waiting = this.#waiting;
		const index = waiting.count;
		waiting.operations[index] = operation;
		waiting.fds[index] = fd;
		waiting.slots[index] = slot;
		waiting.owners[index] = owner;
		return index;
	}

	#commit(index: number): void {
		const waiting = this.#waiting;
		if (index < MAX_QUEUED_CALLS) {
			waiting.count = index + 1;
			return;
		}
		// Owners queue more than there is room for, while others are told: this one is made at once.
		waiting.tell(index, waiting.make(index));
	}

	#point(index: number, memory: Memory, address: number): void {
		this.#waiting.memories[index] = memory;
		this.#waiting.addresses[index] = address;
	}

	#limit(index: number, length: number, flags: number): void {
		this.#waiting.lengths[index] = length;
		this.#waiting.flags[index] = flags;
	}

	#runWaiting(): void {
		const made = this.#waiting;
		this.#waiting = this.#others;
		this.#others = made;
		const { count } = made;
		made.count = 0;
		const ring = count > 1 && !this.#isBroken ? this.#ring : undefined;
		if (ring !== undefined) this.#runRing(ring, made, count);
		for (let index = 0; index < count; index += 1) {
			made.tell(index, ring === undefined ? made.make(index) : (ring.results[index] ?? 0));
		}
	}

	#runRing(ring: IoRing, made: Waiting, count: number): void {
		for (let index = 0; index < count; index += 1) made.put(ring, index);
		try {
			ring.run();
		} catch (error) {
			// What it still has to say could be taken for another call's result.
			this.#isBroken = true;
			throw error;
		}
	}
}
