/**
 * How many file descriptors relayed traffic may hold, so that the process never runs out of them.
 *
 * Running out must not be left to the kernel: when `accept` fails for want of a descriptor, libuv
 * accepts with a spare one and closes at once, and node:net has no way to stop accepting.
 * Pure bookkeeping: whoever opens a socket takes first and gives back when it is closed.
 */
export class DescriptorBudget {
	readonly limit: number;
	#used = 0;

	/** @param limit descriptors that listeners, connections and flows may hold together. */
	constructor(limit: number) {
		if (!Number.isInteger(limit) || limit < 1) {
			throw new RangeError(`Cannot keep a budget of ${limit} descriptors`);
		}
		this.limit = limit;
	}

	get used(): number {
		return this.#used;
	}

	/** Takes `count`, or nothing and answers false when that would leave fewer than `spare`. */
	tryTake(count: number, spare = 0): boolean {
		if (this.#used + count + spare > this.limit) return false;
		this.#used += count;
		return true;
	}

	/** For descriptors that are open already, whatever the budget says: listeners, accepted sockets. */
	take(count: number): void {
		this.#used += count;
	}

	give(count: number): void {
		this.#used -= count;
	}
}
