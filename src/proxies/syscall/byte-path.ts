import { EAGAIN, MSG_MORE, SHUT_WR, send, shutdown, splice } from "../../system/libc.ts";
import { type CallOwner, type CallQueue, type QueuedOperation, READ_BYTES } from "./call-queue.ts";
import { IORING_OP } from "./io-ring.ts";
import type { Pipe, PipePool } from "./pipe-pool.ts";
import { setSmallWritesAtOnce } from "./tcp-sockets.ts";

/** A direction may move so much before others have their turn. */
const TURN_BYTES = 1024 * 1024;

/** So many full reads in a row, and bytes go through a pipe from then on. */
const BULK_AFTER_FULL_READS = 3;

/** A burst of less through a pipe, and bytes are copied from then on. */
const BULK_BURST_BYTES = 256 * 1024;

/** What all directions of one thread use in turn. */
export interface PathMeans {
	readonly calls: CallQueue;
	readonly pipes: PipePool;
}

/** How {@link BytePath.pump} came to its end. */
export type Pumped =
	/** It goes on with the next event. */
	| "waits"
	/** There is more to do: others first. */
	| "more"
	/** Everything has been passed on, the end too. */
	| "over"
	| "read-failed"
	| "write-failed";

/**
 * One direction of a relayed connection: bytes from one socket to another, and then the end.
 *
 * Small messages are copied, by calls that are made together with those of others: {@link begin} queues
 * the read, and what it has read is queued to be written at once. What the other side does not take is set
 * aside, and nothing more is read until it has. Where full reads follow one another, bytes go through a
 * pipe instead (splice), which the kernel does not copy. Events are edge-triggered: this remembers which
 * side may have more.
 */
export class BytePath implements CallOwner {
	readonly #fromFd: number;
	readonly #toFd: number;
	readonly #means: PathMeans;
	/** Bytes that the kernel has taken for the other side. */
	bytes = 0;
	isReadable = false;
	isWritable = true;
	/** The peer has said its end: what is there is to be read to that end. */
	hasHungUp = false;
	/** The peer has sent urgent bytes: reads end where these are, so that a short read says nothing. */
	isUrgent = false;
	isReadEnded = false;
	isOver = false;
	/** -errno of a failed read or write. */
	failure = 0;
	#rest: Buffer | undefined;
	/** Bytes that were read and are being written. */
	#inSlot = 0;
	#pipe: Pipe | undefined;
	#inPipe = 0;
	#fullReads = 0;
	#burst = 0;
	#hasSent = false;
	#hasReadFailed = false;
	#areWritesAtOnce: boolean;

	/** @param areWritesAtOnce that the other side's socket has TCP_NODELAY. */
	constructor(fromFd: number, toFd: number, areWritesAtOnce: boolean, means: PathMeans) {
		this.#fromFd = fromFd;
		this.#toFd = toFd;
		this.#means = means;
		this.#areWritesAtOnce = areWritesAtOnce;
	}

	/** True while something waits for the other side to take it. */
	get isHeldBack(): boolean {
		return this.#rest !== undefined || this.#inPipe > 0;
	}

	/** Queues the read of a small message, where there may be one. */
	begin(): void {
		if (this.#mayCopy()) this.#means.calls.recv(this.#fromFd, this);
	}

	onCall(operation: QueuedOperation, result: number, slot: number): void {
		if (operation === IORING_OP.recv) this.#onRead(result, slot);
		else this.#onWritten(result, slot);
	}

	/**
	 * Moves what can be moved after {@link begin} and its calls.
	 *
	 * @param isLast the other direction is over: the end need not be said, the close will.
	 */
	pump(isLast: boolean): Pumped {
		const untilBytes = this.bytes + TURN_BYTES;
		for (;;) {
			const pumped = this.#step(isLast, untilBytes);
			if (pumped !== undefined) return pumped;
		}
	}

	/** @returns undefined when another step may follow. */
	#step(isLast: boolean, untilBytes: number): Pumped | undefined {
		if (this.isOver) return "over";
		if (this.failure !== 0) return this.#hasReadFailed ? "read-failed" : "write-failed";
		if (this.isHeldBack) return this.#passOn();
		if (this.isReadEnded) return this.#finish(isLast);
		if (!this.isReadable) return "waits";
		if (this.#pipe === undefined || this.bytes >= untilBytes) return "more";
		this.#splice(this.#pipe);
		return undefined;
	}

	#passOn(): Pumped | undefined {
		if (!this.isWritable) return "waits";
		this.#flush();
		return undefined;
	}

	#finish(isLast: boolean): Pumped {
		if (!isLast) shutdown(this.#toFd, SHUT_WR);
		this.release();
		return "over";
	}

	#mayCopy(): boolean {
		return (
			this.isReadable &&
			this.#pipe === undefined &&
			this.#rest === undefined &&
			!this.isReadEnded &&
			!this.isOver
		);
	}

	/** Gives back what it holds. To be called once, at the end. */
	release(): void {
		this.isOver = true;
		this.#rest = undefined;
		if (this.#pipe === undefined) return;
		this.#means.pipes.give(this.#pipe, this.#inPipe === 0);
		this.#pipe = undefined;
		this.#inPipe = 0;
	}

	#onRead(count: number, slot: number): void {
		if (count <= 0) {
			this.#noBytes(count);
			return;
		}
		this.#noteRead(count);
		this.#inSlot = count;
		// One packet less: the end is said at once.
		if (this.isReadEnded) {
			this.#means.calls.sendRead(this.#toFd, slot, count, MSG_MORE, this);
			return;
		}
		// The first bytes go at once anyway; many connections send no second ones.
		if (this.#hasSent) this.#sendAtOnce();
		this.#hasSent = true;
		this.#means.calls.sendRead(this.#toFd, slot, count, 0, this);
	}

	#onWritten(sent: number, slot: number): void {
		const count = this.#inSlot;
		if (sent < 0 && sent !== -EAGAIN) {
			this.failure = sent;
			return;
		}
		const taken = Math.max(0, sent);
		this.bytes += taken;
		if (taken < count) {
			this.#sendAtOnce();
			this.#rest = Buffer.from(this.#means.calls.bytesOf(slot).subarray(taken, count));
			this.isWritable = false;
		}
		if (this.#fullReads >= BULK_AFTER_FULL_READS) {
			this.#pipe = this.#means.pipes.take();
			this.#sendAtOnce();
		}
	}

	#noteRead(count: number): void {
		if (count === READ_BYTES) {
			this.#fullReads += 1;
			return;
		}
		this.#fullReads = 0;
		// A short read has emptied the socket: what comes from now on is another event, and where the end had
		// come before, nothing comes.
		if (this.isUrgent) return;
		if (this.hasHungUp) this.isReadEnded = true;
		else this.isReadable = false;
	}

	#sendAtOnce(): void {
		if (this.#areWritesAtOnce) return;
		this.#areWritesAtOnce = true;
		setSmallWritesAtOnce(this.#toFd);
	}

	#splice(pipe: Pipe): void {
		const count = splice(this.#fromFd, pipe.writeFd, pipe.capacity);
		if (count <= 0) {
			if (this.#burst < BULK_BURST_BYTES) {
				this.#means.pipes.give(pipe, true);
				this.#pipe = undefined;
				this.#fullReads = 0;
			}
			this.#burst = 0;
			this.#noBytes(count);
			return;
		}
		this.#burst += count;
		this.#inPipe = count;
		if (this.isWritable) this.#flush();
	}

	/** Passes on what waits, as far as the other side takes it. */
	#flush(): void {
		if (this.#rest !== undefined) {
			this.#sendRest(this.#rest);
			return;
		}
		const pipe = this.#pipe;
		while (pipe !== undefined && this.#inPipe > 0) {
			const count = splice(pipe.readFd, this.#toFd, this.#inPipe);
			if (count === -EAGAIN) {
				this.isWritable = false;
				return;
			}
			if (count < 0) {
				this.failure = count;
				return;
			}
			this.#inPipe -= count;
			this.bytes += count;
		}
	}

	#sendRest(rest: Buffer): void {
		const sent = send(this.#toFd, rest, rest.length);
		if (sent < 0 && sent !== -EAGAIN) {
			this.failure = sent;
			return;
		}
		const taken = Math.max(0, sent);
		this.bytes += taken;
		this.#rest = taken === rest.length ? undefined : rest.subarray(taken);
		if (this.#rest !== undefined) this.isWritable = false;
	}

	/** A read that gave none. @param result 0, or -errno. */
	#noBytes(result: number): void {
		if (result === -EAGAIN) {
			this.isReadable = false;
			return;
		}
		this.isReadEnded = true;
		if (result === 0) return;
		this.#hasReadFailed = true;
		this.failure = result;
	}
}
