import { close, pipe, setPipeSize } from "../../system/libc.ts";
import type { DescriptorBudget } from "../descriptor-budget.ts";

/** What the kernel lets everybody have (fs.pipe-max-size). */
const PIPE_BYTES = 1024 * 1024;

/** Empty pipes that are kept for the next ones who move much. */
const MAX_IDLE = 16;

const PER_PIPE = 2;

/** A pipe that bytes go through on their way from one socket to another. Empty while it is nobody's. */
export interface Pipe {
	readonly readFd: number;
	readonly writeFd: number;
	readonly capacity: number;
}

/** Pipes for the directions that move much at present. */
export class PipePool {
	readonly #budget: DescriptorBudget;
	readonly #onOpen: (fd: number) => void;
	readonly #onClose: (fd: number) => void;
	readonly #ends = new Int32Array(2);
	readonly #idle: Pipe[] = [];

	constructor(
		budget: DescriptorBudget,
		onOpen: (fd: number) => void,
		onClose: (fd: number) => void,
	) {
		this.#budget = budget;
		this.#onOpen = onOpen;
		this.#onClose = onClose;
	}

	/** @returns undefined when there is no room for one more: then bytes are copied. */
	take(): Pipe | undefined {
		const idle = this.#idle.pop();
		if (idle !== undefined) return idle;
		if (!this.#budget.tryTake(PER_PIPE)) return undefined;
		if (pipe(this.#ends) < 0) {
			this.#budget.give(PER_PIPE);
			return undefined;
		}
		const [readFd = -1, writeFd = -1] = this.#ends;
		this.#onOpen(readFd);
		this.#onOpen(writeFd);
		// Refused where a user has many pipes (fs.pipe-user-pages-soft): it keeps the size that it has.
		const size = setPipeSize(writeFd, PIPE_BYTES);
		return { readFd, writeFd, capacity: size > 0 ? size : 65_536 };
	}

	/** @param pipe an empty one, unless `isEmpty` is false: then it is not used again. */
	give(pipe: Pipe, isEmpty: boolean): void {
		if (isEmpty && this.#idle.length < MAX_IDLE) this.#idle.push(pipe);
		else this.#close(pipe);
	}

	/** Closes the idle ones. */
	clear(): void {
		for (const pipe of this.#idle) this.#close(pipe);
		this.#idle.length = 0;
	}

	#close({ readFd, writeFd }: Pipe): void {
		for (const fd of [readFd, writeFd]) {
			this.#onClose(fd);
			close(fd);
		}
		this.#budget.give(PER_PIPE);
	}
}
