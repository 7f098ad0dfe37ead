/** Something that is to be done at a time, unless it is cancelled before. */
export class Deadline {
	readonly atMs: number;
	#run: (() => void) | undefined;

	constructor(atMs: number, run: () => void) {
		this.atMs = atMs;
		this.#run = run;
	}

	get isPending(): boolean {
		return this.#run !== undefined;
	}

	cancel(): void {
		this.#run = undefined;
	}

	/** Once. */
	run(): void {
		const run = this.#run;
		this.#run = undefined;
		run?.();
	}
}

/** Those that are over are dropped when there are so many, and more than half of all. */
const COMPACT_AT = 1_024;

/**
 * Deadlines of few different durations, of a thread whose event loop does not turn.
 *
 * One queue for each duration: what comes later in it is due later, so that nothing is sorted. Holds
 * a cancelled deadline until its time has come.
 */
export class Deadlines {
	readonly #queues = new Map<number, Queue>();

	/** @param nowMs monotonic milliseconds, never less than at the call before. */
	after(durationMs: number, nowMs: number, run: () => void): Deadline {
		const deadline = new Deadline(nowMs + durationMs, run);
		let queue = this.#queues.get(durationMs);
		if (queue === undefined) {
			queue = { items: [], first: 0 };
			this.#queues.set(durationMs, queue);
		}
		queue.items.push(deadline);
		return deadline;
	}

	/** Until the next one is due; Infinity when there is none. */
	nextInMs(nowMs: number): number {
		let next = Number.POSITIVE_INFINITY;
		for (const queue of this.#queues.values()) {
			const head = headOf(queue);
			if (head !== undefined) next = Math.min(next, head.atMs - nowMs);
		}
		return Math.max(0, next);
	}

	/** Runs what is due. */
	run(nowMs: number): void {
		for (const queue of this.#queues.values()) {
			for (let head = headOf(queue); head !== undefined; head = headOf(queue)) {
				if (head.atMs > nowMs) break;
				queue.first += 1;
				head.run();
			}
		}
	}
}

interface Queue {
	items: Deadline[];
	/** Index of the first that may be pending. */
	first: number;
}

/** The first that is pending. */
function headOf(queue: Queue): Deadline | undefined {
	while (queue.first < queue.items.length) {
		const item = queue.items[queue.first];
		if (item?.isPending === true) {
			if (queue.first >= COMPACT_AT && queue.first * 2 > queue.items.length) compact(queue);
			return item;
		}
		queue.first += 1;
	}
	queue.items = [];
	queue.first = 0;
	return undefined;
}

function compact(queue: Queue): void {
	queue.items = queue.items.slice(queue.first);
	queue.first = 0;
}
