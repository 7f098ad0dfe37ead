import type { Clock } from "../shared/clock.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";

/** Nothing for so long, or up to twice that, and it is said to be over. */
const QUIET_MS = 60_000;

/** Counts the clients that session affinity had to forget, in all ServicePorts of one engine. */
export class AffinityEvictions {
	readonly #faults: RecurringFailure;
	readonly #sweeper: NodeJS.Timeout;
	#count = 0;

	constructor(log: Log, clock: Clock) {
		this.#faults = new RecurringFailure({
			log,
			clock,
			failing: "session affinity forgets the clients that were not seen for the longest",
			recovered: "session affinity forgets no client any more",
		});
		this.#sweeper = setInterval(() => this.#faults.sweep(), QUIET_MS).unref();
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
		clearInterval(this.#sweeper);
	}
}
