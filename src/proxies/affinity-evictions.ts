import type { Clock } from "../shared/clock.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure, sweepNowAndThen } from "../shared/recurring.ts";

/** Counts the clients that session affinity had to forget, in all ServicePorts of one engine. */
export class AffinityEvictions {
	readonly #faults: RecurringFailure;
	readonly #stopSweeping: () => void;
	#count = 0;

	constructor(log: Log, clock: Clock) {
		this.#faults = new RecurringFailure({
			log,
			clock,
			failing: "session affinity forgets the clients that were not seen for the longest",
			recovered: "session affinity forgets no client any more",
		});
		this.#stopSweeping = sweepNowAndThen([this.#faults]);
	}

	/** Since the start. */
	get count(): number {
		return this.#count;
	}

	happened(): void {
		this.#count += 1;
		this.#faults.failed("a ServicePort has more clients than are remembered");
	}

	close(): void {
		this.#stopSweeping();
	}
}
