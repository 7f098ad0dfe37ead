import type { Pick } from "../balancing/pick.ts";
import type { DialAttempt, DialOutcome } from "../services/connection-record.ts";
import type { Clock } from "../shared/clock.ts";

/** What a record holds; the dial timeouts are rarely so many. */
const MAX_RECORDED = 16;

const NONE_TRIED: ReadonlySet<string> = new Set();
const NO_ATTEMPTS: readonly DialAttempt[] = [];

/** The tries that one connection makes, one after the other. */
export class AttemptLog {
	readonly #clock: Clock;
	/** Most connections make one try: nothing is set aside for more until it has failed. */
	#attempts: DialAttempt[] | undefined;
	#tried: Set<string> | undefined;
	#count = 0;
	#current: Pick | undefined;
	#beganMs = 0;
	#allLocal = true;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** The first 16. */
	get attempts(): readonly DialAttempt[] {
		return this.#attempts ?? NO_ATTEMPTS;
	}

	/** All, the one that goes on included. */
	get count(): number {
		return this.#count;
	}

	/** Keys of the endpoints whose tries have ended. */
	get tried(): ReadonlySet<string> {
		return this.#tried ?? NONE_TRIED;
	}

	/** When the last try began; monotonic milliseconds. */
	get beganMs(): number {
		return this.#beganMs;
	}

	/** True when no try got as far as to say anything about an endpoint. */
	get failedLocally(): boolean {
		return this.#allLocal;
	}

	begin(pick: Pick): void {
		this.#current = pick;
		this.#count += 1;
		this.#beganMs = this.#clock.monotonicMs();
	}

	/** Ends the try that goes on; does nothing when none does. */
	end(outcome: DialOutcome, errorCode: string | undefined): void {
		if (this.#current === undefined) return;
		const { key } = this.#current.endpoint;
		if (outcome !== "local-error") this.#allLocal = false;
		if (outcome !== "connected") {
			this.#tried ??= new Set();
			this.#tried.add(key);
		}
		this.#attempts ??= [];
		if (this.#attempts.length < MAX_RECORDED) {
			this.#attempts.push({
				endpoint: key,
				outcome,
				durationMs: this.#clock.monotonicMs() - this.#beganMs,
				errorCode,
			});
		}
		this.#current = undefined;
	}
}
