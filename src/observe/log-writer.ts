import { closeSync, constants, fstatSync, openSync, write, writeSync } from "node:fs";
import { isatty } from "node:tty";
import { errorCode } from "../shared/errors.ts";

/** Characters that may wait for a slow reader: some 10,000 lines. */
const MAX_QUEUED_CHARS = 4 * 1024 * 1024;

/** One write at most; the default size of a pipe. */
const MAX_BATCH_CHARS = 64 * 1024;

/** How soon a full pipe or a broken one is tried again, in milliseconds. */
const FULL_RETRY_MS = 20;
const BROKEN_RETRY_MS = 1_000;

/** How long the end of the process may wait for a slow reader, in milliseconds. */
const EXIT_WAIT_MS = 500;

/** Where log lines go. Nothing here ever throws. */
export interface LogDestination {
	/** @param line with its newline. */
	write(line: string): void;
	/** True where a person looks at it: colours are welcome. */
	readonly isTerminal: boolean;
	/** Lines given up since the start: the reader was too slow, or gone. */
	droppedLines(): number;
	/** Resolves when all is written, or after `timeoutMs`. */
	flush(timeoutMs: number): Promise<void>;
	/** For the very end of the process: writes what it can without the event loop. */
	flushSync(): void;
	/** To be told how many lines were dropped, once there is room again. */
	onRoomAgain(tell: (droppedLines: number) => void): void;
}

/**
 * Writes lines to a descriptor without ever making the relay wait for whoever reads them.
 *
 * Pipes and terminals are opened anew without blocking (an own open file, so that nobody who shares
 * the pipe is affected); files do not block. A socket (journald) cannot be opened anew: its
 * writes are made by libuv's threads. Lines wait in a bounded queue; above the bound new ones are
 * dropped and counted. Not sonic-boom: its flushSync never returns when the reader is gone.
 */
export class LogWriter implements LogDestination {
	readonly isTerminal: boolean;
	readonly #fd: number;
	readonly #reopened: boolean;
	readonly #mayBlock: boolean;
	#lines: string[] = [];
	#queuedChars = 0;
	/** What is being written: bytes that are left of a batch of so many lines. */
	#batch: { bytes: Buffer; readonly lines: number } | undefined;
	/** Since when a thread is at it, by the monotonic clock. */
	#inFlightSinceMs: number | undefined;
	#scheduled: boolean = false;
	#isMidLine: boolean = false;
	/** The end has waited for the reader already, in vain. */
	#hasWaited: boolean = false;
	#dropped = 0;
	#droppedTold = 0;
	#tellRoomAgain: (droppedLines: number) => void = () => {};
	#waiting: (() => void)[] = [];
	#isClosed: boolean = false;

	constructor(fd: number) {
		const kind = kindOf(fd);
		const own = kind === "pipe" || kind === "device" ? reopenNonBlocking(fd) : undefined;
		this.#fd = own ?? fd;
		this.#reopened = own !== undefined;
		this.#mayBlock = own === undefined && kind !== "file";
		this.isTerminal = isatty(fd);
	}

	write(line: string): void {
		if (this.#queuedChars + line.length > MAX_QUEUED_CHARS) {
			this.#dropped += 1;
			return;
		}
		this.#lines.push(line);
		this.#queuedChars += line.length;
		if (this.#scheduled) return;
		this.#scheduled = true;
		// Together with what else is logged in this turn: one system call for many lines.
		setImmediate(() => this.#pump());
	}

	droppedLines(): number {
		return this.#dropped;
	}

	onRoomAgain(tell: (droppedLines: number) => void): void {
		this.#tellRoomAgain = tell;
	}

	async flush(timeoutMs: number): Promise<void> {
		if (!this.#scheduled) return;
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#waiting.push(resolve);
		const timer = setTimeout(() => {
			this.#hasWaited = true;
			resolve();
		}, timeoutMs);
		await promise;
		clearTimeout(timer);
	}

	flushSync(): void {
		if (!this.#takeFromThread()) return;
		const giveUpAtMs = performance.now() + EXIT_WAIT_MS;
		for (;;) {
			this.#batch ??= this.#nextBatch();
			if (this.#batch === undefined || performance.now() > giveUpAtMs) return;
			try {
				this.#advance(writeSync(this.#fd, this.#batch.bytes));
			} catch (error) {
				if (!isFull(error) || this.#hasWaited) return;
				pause(FULL_RETRY_MS);
			}
		}
	}

	/**
	 * For tests: gives the descriptor back that was opened anew, and writes nothing more: its number may
	 * soon be that of another file.
	 */
	close(): void {
		this.#isClosed = true;
		if (this.#reopened) closeSync(this.#fd);
	}

	/** False where a thread that writes is stuck: so would we be. */
	#takeFromThread(): boolean {
		if (this.#inFlightSinceMs === undefined) return true;
		if (this.#hasWaited || performance.now() - this.#inFlightSinceMs > EXIT_WAIT_MS) return false;
		pause(FULL_RETRY_MS);
		this.#batch = undefined;
		return true;
	}

	#pump(): void {
		if (this.#isClosed) return;
		this.#batch ??= this.#nextBatch();
		const batch = this.#batch;
		if (batch === undefined) {
			this.#idle();
			return;
		}
		if (this.#mayBlock) {
			this.#inFlightSinceMs = performance.now();
			write(this.#fd, batch.bytes, (error, count) => {
				this.#inFlightSinceMs = undefined;
				if (error === null) this.#advance(count);
				this.#next(error);
			});
			return;
		}
		try {
			this.#advance(writeSync(this.#fd, batch.bytes));
			this.#next(null);
		} catch (error) {
			this.#next(error);
		}
	}

	#next(error: unknown): void {
		if (error === null) {
			setImmediate(() => this.#pump());
		} else if (isFull(error)) {
			setTimeout(() => this.#pump(), FULL_RETRY_MS);
		} else {
			// Gone for good (EPIPE) or for now (ENOSPC): this batch is lost, later lines may fare better.
			this.#dropped += this.#batch?.lines ?? 0;
			this.#batch = undefined;
			// Must not keep a process alive that has nothing else to do.
			setTimeout(() => this.#pump(), BROKEN_RETRY_MS).unref();
		}
	}

	#idle(): void {
		this.#scheduled = false;
		for (const resolve of this.#waiting.splice(0)) resolve();
		const untold = this.#dropped - this.#droppedTold;
		if (untold === 0) return;
		this.#droppedTold = this.#dropped;
		this.#tellRoomAgain(untold);
	}

	#nextBatch(): { bytes: Buffer; readonly lines: number } | undefined {
		if (this.#lines.length === 0) return undefined;
		let lines = 0;
		let chars = 0;
		do {
			chars += this.#lines[lines]?.length ?? 0;
			lines += 1;
		} while (lines < this.#lines.length && chars < MAX_BATCH_CHARS);
		const taken = this.#lines.splice(0, lines);
		this.#queuedChars -= chars;
		// The rest of a line was lost with a broken batch: do not glue the next one to its stump.
		if (this.#isMidLine) taken.unshift("\n");
		return { bytes: Buffer.from(taken.join("")), lines };
	}

	#advance(count: number): void {
		const batch = this.#batch;
		if (batch === undefined || count === 0) return;
		this.#isMidLine = batch.bytes[count - 1] !== 0x0a;
		batch.bytes = batch.bytes.subarray(count);
		if (batch.bytes.length === 0) this.#batch = undefined;
	}
}

function kindOf(fd: number): "file" | "pipe" | "device" | "other" {
	try {
		const stat = fstatSync(fd);
		if (stat.isFile()) return "file";
		if (stat.isFIFO()) return "pipe";
		return stat.isCharacterDevice() ? "device" : "other";
	} catch {
		return "other";
	}
}

function reopenNonBlocking(fd: number): number | undefined {
	try {
		const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
		return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
	} catch {
		// No /proc, or a pipe of another user.
		return undefined;
	}
}

function isFull(error: unknown): boolean {
	return errorCode(error) === "EAGAIN";
}

function pause(ms: number): void {
	Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
