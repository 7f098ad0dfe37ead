import { Backoff } from "./backoff.ts";

export interface BoundedRunnerOptions {
	/** One run; the next begins only after it has settled. A rejection is a failure: retried. */
	run(signal: AbortSignal): Promise<void>;
	/** Called after each failed run; the runner itself goes on. Must not throw. */
	onFailure(error: unknown): void;
	/** Runs begin no closer together than this once the burst is used up, in milliseconds; 0: no limit. */
	readonly minIntervalMs: number;
	/** Runs that may begin without the minimum interval after a quiet time. At least 1. */
	readonly burst: number;
	/** A run begins at the latest this long after the one before; undefined: only on request. */
	readonly maxIntervalMs?: number | undefined;
	/** Requests that come this close together share one run, in milliseconds. */
	readonly gatherMs?: number;
	/** Waits between failed runs. */
	readonly retry?: Backoff;
	/** Monotonic milliseconds: a clock that is set must neither hurry nor hold up a run. */
	readonly now?: () => number;
}

/**
 * Runs one job on request, coalesced: never two at once, never more often than the minimum
 * interval (with a small burst), at least every maximum interval, and again after a failure with a
 * growing wait. A request during a run causes one more run after it.
 *
 * A failure's wait bounds new requests too: a broken tool is not hammered by a busy API.
 */
export class BoundedRunner {
	readonly #options: BoundedRunnerOptions;
	readonly #retry: Backoff;
	readonly #now: () => number;
	readonly #abort = new AbortController();
	#timer: NodeJS.Timeout | undefined;
	#timerAt = Number.POSITIVE_INFINITY;
	#running: Promise<void> | undefined;
	#requestedAt: number | undefined;
	#lastStartAt: number | undefined;
	#tokens: number;
	#tokensAt: number;
	#notBefore = 0;

	constructor(options: BoundedRunnerOptions) {
		if (options.burst < 1 || options.minIntervalMs < 0) {
			throw new RangeError(
				`Cannot run with burst ${options.burst} and minIntervalMs ${options.minIntervalMs}`,
			);
		}
		this.#options = options;
		this.#now = options.now ?? (() => performance.now());
		this.#retry =
			options.retry ?? new Backoff({ initialMs: 500, maxMs: 30_000, factor: 2, jitter: 0.2 });
		this.#tokens = options.burst;
		this.#tokensAt = this.#now();
	}

	/** Asks for a run soon. Cheap, may be called at any rate. */
	request(): void {
		this.#requestedAt ??= this.#now();
		this.#schedule();
	}

	/** When the oldest request that no run has begun to serve was made, by `now`; undefined: none waits. */
	queuedSinceMs(): number | undefined {
		return this.#requestedAt;
	}

	/** When the run that goes on now began, by `now`; undefined: none does. */
	runningSinceMs(): number | undefined {
		return this.#running === undefined ? undefined : this.#lastStartAt;
	}

	/** No further run begins; aborts the signal of the present one and resolves when it has settled. */
	async stop(): Promise<void> {
		this.#abort.abort();
		clearTimeout(this.#timer);
		await this.#running;
	}

	#schedule(): void {
		if (this.#abort.signal.aborted || this.#running !== undefined) return;
		const dueAt = this.#dueAt();
		if (dueAt === undefined || dueAt >= this.#timerAt) return;
		clearTimeout(this.#timer);
		this.#timerAt = dueAt;
		this.#timer = setTimeout(() => this.#begin(), Math.max(0, dueAt - this.#now()));
	}

	#dueAt(): number | undefined {
		const { maxIntervalMs, gatherMs = 0 } = this.#options;
		const periodicAt =
			maxIntervalMs === undefined || this.#lastStartAt === undefined
				? undefined
				: this.#lastStartAt + maxIntervalMs;
		if (this.#requestedAt === undefined) return periodicAt;
		const requestedAt = Math.max(this.#requestedAt + gatherMs, this.#tokenAt(), this.#notBefore);
		return periodicAt === undefined ? requestedAt : Math.min(requestedAt, periodicAt);
	}

	/** When the next run may begin by the minimum interval. */
	#tokenAt(): number {
		const { minIntervalMs, burst } = this.#options;
		const now = this.#now();
		if (minIntervalMs === 0) return now;
		this.#tokens = Math.min(burst, this.#tokens + (now - this.#tokensAt) / minIntervalMs);
		this.#tokensAt = now;
		return this.#tokens >= 1 ? now : now + (1 - this.#tokens) * minIntervalMs;
	}

	#begin(): void {
		this.#timer = undefined;
		this.#timerAt = Number.POSITIVE_INFINITY;
		if (this.#abort.signal.aborted || this.#running !== undefined) return;
		this.#tokenAt();
		this.#tokens = Math.max(0, this.#tokens - 1);
		this.#requestedAt = undefined;
		this.#lastStartAt = this.#now();
		this.#running = this.#runOnce().finally(() => {
			this.#running = undefined;
			this.#schedule();
		});
	}

	async #runOnce(): Promise<void> {
		try {
			await this.#options.run(this.#abort.signal);
			this.#retry.reset();
			this.#notBefore = 0;
		} catch (error) {
			if (this.#abort.signal.aborted) return;
			this.#notBefore = this.#now() + this.#retry.next();
			this.#requestedAt ??= this.#now();
			this.#options.onFailure(error);
		}
	}
}
