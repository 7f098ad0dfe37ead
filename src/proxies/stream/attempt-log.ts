import type { Pick } from "../../balancing/pick.ts";
import type { DialAttempt, DialOutcome } from "../../services/connection-record.ts";
import type { Clock } from "../../shared/clock.ts";

/** What a record holds; the dial timeouts are rarely so many. */
const MAX_RECORDED = 16;

/** The tries that one connection makes, one after the other. */
export class AttemptLog {
	readonly #clock: Clock;
	readonly #attempts: DialAttempt[] = [];
	readonly #tried = new Set<string>();
	#count = 0;
	#current: Pick | undefined;
	#beganMs = 0;
	#allLocal = true;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** The first 16. */
	get attempts(): readonly DialAttempt[] {
		return this.#attempts;
	}

	/** All, the one that goes on included. */
	get count(): number {
		return this.#count;
	}

	/** Keys of the endpoints. */
	get tried(): ReadonlySet<string> {
		return this.#tried;
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
		this.#tried.add(pick.endpoint.key);
		this.#beganMs = this.#clock.monotonicMs();
	}

	/** Ends the try that goes on; does nothing when none does. */
	end(outcome: DialOutcome, errorCode: string | undefined): void {
		if (this.#current === undefined) return;
		if (outcome !== "local-error") this.#allLocal = false;
		if (this.#attempts.length < MAX_RECORDED) {
			this.#attempts.push({
				endpoint: this.#current.endpoint.key,
				outcome,
				durationMs: this.#clock.monotonicMs() - this.#beganMs,
				errorCode,
			});
		}
		this.#current = undefined;
	}
}
