import { EAGAIN, recv, SHUT_WR, send, sendLast, shutdown, splice } from "./libc.ts";
import type { Pipe, PipePool } from "./pipe-pool.ts";
import { setSmallWritesAtOnce } from "./tcp-sockets.ts";

/** One read: what most requests and answers fit in. */
const COPY_BYTES = 64 * 1024;

/** A direction may move so much before others have their turn. */
const TURN_BYTES = 1024 * 1024;

/** So many full reads in a row, and bytes go through a pipe from then on. */
const BULK_AFTER_FULL_READS = 3;

/** A burst of less through a pipe, and bytes are copied from then on. */
const BULK_BURST_BYTES = 256 * 1024;

/** What all directions of one thread use in turn. */
export interface PathMeans {
	readonly buffer: Buffer;
	readonly pipes: PipePool;
}

export function createPathMeans(pipes: PipePool): PathMeans {
	return { buffer: Buffer.allocUnsafeSlow(COPY_BYTES), pipes };
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
 * Small messages are copied through one buffer that all share; what the other side does not take is set
 * aside, and nothing more is read until it has. Where full reads follow one another, bytes go through a
 * pipe instead (splice), which the kernel does not copy. Events are edge-triggered: this remembers which
 * side may have more.
 */
export class BytePath {
	readonly #fromFd: number;
	readonly #toFd: number;
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
	#pipe: Pipe | undefined;
	#inPipe = 0;
	#fullReads = 0;
	#burst = 0;
	#hasSent = false;
	#hasReadFailed = false;
	#areWritesAtOnce: boolean;

	/** @param areWritesAtOnce that the other side's socket has TCP_NODELAY. */
	constructor(fromFd: number, toFd: number, areWritesAtOnce: boolean) {
		this.#fromFd = fromFd;
		this.#toFd = toFd;
		this.#areWritesAtOnce = areWritesAtOnce;
	}

	/** True while something waits for the other side to take it. */
	get isHeldBack(): boolean {
		return this.#rest !== undefined || this.#inPipe > 0;
	}

	/**
	 * Moves what can be moved.
	 *
	 * @param isLast the other direction is over: the end need not be said, the close will.
	 */
	pump(means: PathMeans, isLast: boolean): Pumped {
		const untilBytes = this.bytes + TURN_BYTES;
		for (;;) {
			const pumped = this.#step(means, isLast, untilBytes);
			if (pumped !== undefined) return pumped;
		}
	}

	/** @returns undefined when another step may follow. */
	#step(means: PathMeans, isLast: boolean, untilBytes: number): Pumped | undefined {
		if (this.isOver) return "over";
		if (this.isHeldBack) return this.#passOn();
		if (this.isReadEnded) {
			this.#finish(means, isLast);
			return "over";
		}
		if (!this.isReadable) return "waits";
		if (this.bytes >= untilBytes) return "more";
		return this.#move(means);
	}

	#passOn(): Pumped | undefined {
		if (!this.isWritable) return "waits";
		return this.#flush() ? undefined : "write-failed";
	}

	#move(means: PathMeans): Pumped | undefined {
		const isFine = this.#pipe === undefined ? this.#copy(means) : this.#splice(this.#pipe, means);
		if (isFine) return undefined;
		return this.#hasReadFailed ? "read-failed" : "write-failed";
	}

	/** Gives back what it holds. To be called once, at the end. */
	release({ pipes }: PathMeans): void {
		this.isOver = true;
		this.#rest = undefined;
		if (this.#pipe === undefined) return;
		pipes.give(this.#pipe, this.#inPipe === 0);
		this.#pipe = undefined;
		this.#inPipe = 0;
	}

	/** @returns false when reading or writing failed. */
	#copy({ buffer, pipes }: PathMeans): boolean {
		const count = recv(this.#fromFd, buffer, COPY_BYTES);
		if (count <= 0) return this.#noBytes(count);
		this.#noteRead(count);
		const sent = this.#send(buffer, count);
		if (sent < 0 && sent !== -EAGAIN) return this.#fail(sent);
		const taken = Math.max(0, sent);
		this.bytes += taken;
		if (taken < count) {
			this.#sendAtOnce();
			this.#rest = Buffer.from(buffer.subarray(taken, count));
			this.isWritable = false;
		}
		if (this.#fullReads >= BULK_AFTER_FULL_READS) {
			this.#pipe = pipes.take();
			this.#sendAtOnce();
		}
		return true;
	}

	#noteRead(count: number): void {
		if (count === COPY_BYTES) {
			this.#fullReads += 1;
			return;
		}
		this.#fullReads = 0;
		// A short read has emptied the socket: what comes from now on is another event, and where the end had
		// come before, nothing comes.
		if (!this.hasHungUp) this.isReadable = false;
		else if (!this.isUrgent) this.isReadEnded = true;
	}

	#send(buffer: Buffer, count: number): number {
		// One packet less: the end is said at once.
		if (this.isReadEnded) return sendLast(this.#toFd, buffer, count);
		// The first bytes go at once anyway; many connections send no second ones.
		if (this.#hasSent) this.#sendAtOnce();
		this.#hasSent = true;
		return send(this.#toFd, buffer, count);
	}

	#sendAtOnce(): void {
		if (this.#areWritesAtOnce) return;
		this.#areWritesAtOnce = true;
		setSmallWritesAtOnce(this.#toFd);
	}

	#splice(pipe: Pipe, { pipes }: PathMeans): boolean {
		const count = splice(this.#fromFd, pipe.writeFd, pipe.capacity);
		if (count <= 0) {
			if (this.#burst < BULK_BURST_BYTES) {
				pipes.give(pipe, true);
				this.#pipe = undefined;
				this.#fullReads = 0;
			}
			this.#burst = 0;
			return this.#noBytes(count);
		}
		this.#burst += count;
		this.#inPipe = count;
		return !this.isWritable || this.#flush();
	}

	/** Passes on what waits, as far as the other side takes it. @returns false when that failed. */
	#flush(): boolean {
		const pipe = this.#pipe;
		if (this.#rest !== undefined) return this.#sendRest(this.#rest);
		while (pipe !== undefined && this.#inPipe > 0) {
			const count = splice(pipe.readFd, this.#toFd, this.#inPipe);
			if (count === -EAGAIN) {
				this.isWritable = false;
				return true;
			}
			if (count < 0) return this.#fail(count);
			this.#inPipe -= count;
			this.bytes += count;
		}
		return true;
	}

	#sendRest(rest: Buffer): boolean {
		const sent = send(this.#toFd, rest, rest.length);
		if (sent < 0 && sent !== -EAGAIN) return this.#fail(sent);
		const taken = Math.max(0, sent);
		this.bytes += taken;
		this.#rest = taken === rest.length ? undefined : rest.subarray(taken);
		if (this.#rest !== undefined) this.isWritable = false;
		return true;
	}

	#noBytes(result: number): boolean {
		if (result === -EAGAIN) {
			this.isReadable = false;
			return true;
		}
		this.isReadEnded = true;
		if (result === 0) return true;
		this.#hasReadFailed = true;
		return this.#fail(result);
	}

	#fail(result: number): false {
		this.failure = result;
		return false;
	}

	#finish(means: PathMeans, isLast: boolean): void {
		if (!isLast) shutdown(this.#toFd, SHUT_WR);
		this.release(means);
	}
}
