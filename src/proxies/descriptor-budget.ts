import type { Log } from "../shared/log.ts";

/** A node with fewer than some two thousand connections is a small one; say that it is the limit. */
const FEW_DESCRIPTORS = 4_096;

/**
 * Kept for everything that is no relayed traffic (API, HTTP clients, logs, children, the event
 * loop's own), where the limit allows.
 */
const MAX_RESERVE = 512;
const MIN_RESERVE = 64;

/** Of the reserve, what is not for HTTP clients. Counted on a running daemon: about 40. */
const BESIDE_HTTP = 44;

/**
 * What a worker thread has open before it relays anything: an event loop of Node's that never turns, an
 * epoll, an eventfd and a ring of ours. Counted on a running daemon (Node 26).
 */
export const WORKER_DESCRIPTORS = 8;

/** Addresses with an HTTP server: health, and metrics with the status. */
const HTTP_ADDRESSES = 2;

/** Enough for probes, scrapes and people. */
const MAX_HTTP_CONNECTIONS = 128;

/** Beyond this many, a client that waits has little hope before it is refused after all. */
const MAX_WAITING = 1024;

/**
 * How many file descriptors relayed traffic may hold, so that the process never runs out of them.
 *
 * Running out must not be left to the kernel: when `accept` fails for want of a descriptor, libuv
 * accepts with a spare one and closes at once, and node:net has no way to stop accepting.
 * Pure bookkeeping: whoever opens a socket takes first and gives back when it is closed.
 */
export class DescriptorBudget {
	readonly limit: number;
	readonly #used: Int32Array;
	readonly #share: Int32Array;

	/**
	 * @param limit descriptors that listeners, connections and flows may hold together.
	 * @param used one number: how many are used, which other threads may share.
	 * @param share one number: how many were taken here.
	 */
	constructor(
		limit: number,
		used: Int32Array = new Int32Array(1),
		share: Int32Array = new Int32Array(1),
	) {
		if (!Number.isInteger(limit) || limit < 1) {
			throw new RangeError(`Cannot keep a budget of ${limit} descriptors`);
		}
		this.limit = limit;
		this.#used = used;
		this.#share = share;
	}

	get used(): number {
		return Atomics.load(this.#used, 0);
	}

	/** Takes `count`, or nothing and answers false when that would leave fewer than `spare`. */
	tryTake(count: number, spare = 0): boolean {
		for (;;) {
			const before = Atomics.load(this.#used, 0);
			if (before + count + spare > this.limit) return false;
			// Never more than there is, not even for a moment: another thread would be refused by it.
			if (Atomics.compareExchange(this.#used, 0, before, before + count) !== before) continue;
			Atomics.add(this.#share, 0, count);
			return true;
		}
	}

	/** For descriptors that are open already, whatever the budget says: listeners. */
	take(count: number): void {
		Atomics.add(this.#share, 0, count);
		Atomics.add(this.#used, 0, count);
	}

	give(count: number): void {
		Atomics.sub(this.#share, 0, count);
		Atomics.sub(this.#used, 0, count);
	}
}

export interface DescriptorPlan {
	/** For listeners, flows, and two for each relayed connection. */
	readonly relaying: number;
	/** For accepted connections that wait until others end, one each. */
	readonly waiting: number;
	/** For clients of each address that HTTP is served on. */
	readonly http: number;
}

/** Divides the descriptors that the process may have. @param workers threads that relay, beside the first. */
export function planDescriptors(softLimit: number, workers = 0): DescriptorPlan {
	const reserve = Math.min(MAX_RESERVE, Math.max(MIN_RESERVE, Math.floor(softLimit / 8)));
	const left = Math.max(4, softLimit - reserve - workers * WORKER_DESCRIPTORS);
	const waiting = Math.min(MAX_WAITING, Math.floor(left / 8));
	const http = Math.min(MAX_HTTP_CONNECTIONS, Math.floor((reserve - BESIDE_HTTP) / HTTP_ADDRESSES));
	return { relaying: left - waiting, waiting, http };
}

/** Says how they are divided, and warns where they are what bounds this node. */
export function tellDescriptors({ relaying, waiting }: DescriptorPlan, log: Log): void {
	log.debug({ descriptors: relaying, waiting }, "descriptors divided");
	if (relaying >= FEW_DESCRIPTORS) return;
	const connections = Math.floor(relaying / 2);
	log.warn({ connections, remedy: "raise LimitNOFILE" }, "few file descriptors to relay with");
}
