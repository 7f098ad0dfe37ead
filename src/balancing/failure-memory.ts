/** The first time that an endpoint is avoided after it failed. */
const FIRST_PENALTY_MS = 1000;

/**
 * The longest. An endpoint that the cluster still calls ready is worth a try a minute: the try
 * costs one client one dial timeout, and a network that came back is found within it.
 */
const MAX_PENALTY_MS = 60_000;

/**
 * How long one try after a penalty keeps the others away. Longer than any default dial timeout
 * (2 s); if it ends without a word (the client left), the next one tries then.
 */
const PROBE_MS = 3000;

interface Failure {
	/** The last one. */
	failedAtMs: number;
	/** The endpoint is avoided until then. */
	avoidUntilMs: number;
	penaltyMs: number;
	/** True while the first connection after a penalty finds out whether the endpoint is back. */
	probing: boolean;
}

/**
 * Which endpoints of one ServicePort failed to answer lately, so that others are tried first.
 *
 * ```
 *        failed                    penalty over, picked
 *  well ───────► avoided (1 s) ──────────────────────────► probing
 *   ▲                 ▲                                      │  │
 *   │                 └───── failed: twice as long, ≤ 60 s ──┘  │
 *   └────────────────────── answered ───────────────────────────┘
 * ```
 *
 * Holds at most one entry per endpoint of the last {@link keepOnly}.
 */
export class FailureMemory {
	readonly #now: () => number;
	readonly #failures = new Map<string, Failure>();

	/** @param now monotonic milliseconds. */
	constructor(now: () => number) {
		this.#now = now;
	}

	/** How many endpoints are remembered, those whose penalty is over included. */
	get size(): number {
		return this.#failures.size;
	}

	/** True when others should be tried first. */
	isAvoided(endpointKey: string): boolean {
		const failure = this.#failures.get(endpointKey);
		return failure !== undefined && this.#now() < failure.avoidUntilMs;
	}

	/** To be called with each endpoint that was picked: the first after a penalty is the only one. */
	picked(endpointKey: string): void {
		const failure = this.#failures.get(endpointKey);
		if (failure === undefined || this.#now() < failure.avoidUntilMs) return;
		failure.probing = true;
		failure.avoidUntilMs = this.#now() + PROBE_MS;
	}

	/** @returns whether it is avoided anew, or longer. */
	failed(endpointKey: string): boolean {
		const failure = this.#failures.get(endpointKey);
		if (failure === undefined) {
			this.#failures.set(endpointKey, {
				failedAtMs: this.#now(),
				avoidUntilMs: this.#now() + FIRST_PENALTY_MS,
				penaltyMs: FIRST_PENALTY_MS,
				probing: false,
			});
			return true;
		}
		failure.failedAtMs = this.#now();
		// Fifty connections that dialed at once fail at once: that is one failure, not fifty.
		if (!failure.probing && this.#now() < failure.avoidUntilMs) return false;
		failure.probing = false;
		failure.penaltyMs = Math.min(MAX_PENALTY_MS, failure.penaltyMs * 2);
		failure.avoidUntilMs = this.#now() + failure.penaltyMs;
		return true;
	}

	/** @returns whether that is news. */
	answered(endpointKey: string): boolean {
		return this.#failures.delete(endpointKey);
	}

	/** Forgets the failure unless it is younger than `sinceMs`. */
	unrefuted(endpointKey: string, sinceMs: number): void {
		const failure = this.#failures.get(endpointKey);
		if (failure !== undefined && failure.failedAtMs <= sinceMs) this.#failures.delete(endpointKey);
	}

	/** Forgets every endpoint that is not in `endpointKeys`. */
	keepOnly(endpointKeys: { has(key: string): boolean }): void {
		for (const key of this.#failures.keys()) {
			if (!endpointKeys.has(key)) this.#failures.delete(key);
		}
	}
}
