export interface BackoffOptions {
	/** The first wait, in milliseconds, before jitter. */
	readonly initialMs: number;
	/** No wait is longer than this before jitter. */
	readonly maxMs: number;
	/** Each wait is this many times the one before. */
	readonly factor: number;
	/** A wait is made longer by up to this share of itself: 1 means up to twice as long. */
	readonly jitter: number;
	/** Uniform in [0, 1). */
	readonly random?: () => number;
}

/** Growing waits between tries. Not a timer: the caller waits. */
export class Backoff {
	readonly #options: BackoffOptions;
	#nextMs: number;

	constructor(options: BackoffOptions) {
		if (options.initialMs <= 0 || options.maxMs < options.initialMs || options.factor < 1) {
			throw new RangeError(
				`Cannot back off with initialMs ${options.initialMs}, maxMs ${options.maxMs}, factor ${options.factor}`,
			);
		}
		this.#options = options;
		this.#nextMs = options.initialMs;
	}

	/** Milliseconds to wait before the next try. */
	next(): number {
		const { maxMs, factor, jitter, random = Math.random } = this.#options;
		const baseMs = this.#nextMs;
		this.#nextMs = Math.min(maxMs, baseMs * factor);
		return baseMs * (1 + jitter * random());
	}

	/** To be called when things have gone well: the next wait is the first one again. */
	reset(): void {
		this.#nextMs = this.#options.initialMs;
	}
}
