import { setTimeout as delay } from "node:timers/promises";
import { Backoff } from "../../shared/backoff.ts";
import type { Clock } from "../../shared/clock.ts";
import type { ReflectorLimits } from "./limits.ts";

/** Resolves after the time or at the abort; never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** The waits between a reflector's requests, by client-go's rules. */
export class Pace {
	readonly #limits: ReflectorLimits;
	readonly #clock: Clock;
	readonly #sleep: Sleep;
	readonly #backoff: Backoff;
	#waitedAtMs: number | undefined;

	constructor(
		limits: ReflectorLimits,
		clock: Clock,
		random: () => number,
		sleep: Sleep = sleepQuietly,
	) {
		this.#limits = limits;
		this.#clock = clock;
		this.#sleep = sleep;
		const { firstWaitMs: initialMs, maxWaitMs: maxMs } = limits;
		this.#backoff = new Backoff({ initialMs, maxMs, factor: 2, jitter: 1, random });
	}

	/** @param atLeastMs the server's wish, honoured up to a bound. */
	async wait(atLeastMs: number, signal: AbortSignal): Promise<void> {
		const { calmMs, maxRetryAfterMs } = this.#limits;
		const nowMs = this.#clock.monotonicMs();
		if (this.#waitedAtMs !== undefined && nowMs - this.#waitedAtMs > calmMs) this.#backoff.reset();
		const ms = Math.max(this.#backoff.next(), Math.min(atLeastMs, maxRetryAfterMs));
		await this.#sleep(ms, signal);
		this.#waitedAtMs = this.#clock.monotonicMs();
	}
}

async function sleepQuietly(ms: number, signal: AbortSignal): Promise<void> {
	try {
		await delay(ms, undefined, { signal });
	} catch (error) {
		if (!signal.aborted) throw error;
	}
}
