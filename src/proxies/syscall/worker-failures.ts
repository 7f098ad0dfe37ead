import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { RecurringFailure, sweepNowAndThen } from "../../shared/recurring.ts";
import type { WorkerFailure } from "../engine.ts";

/** Counts the workers that ended by an error, and tells of them, however fast they do. */
export class WorkerFailures {
	readonly #clock: Clock;
	readonly #faults: RecurringFailure;
	readonly #stopSweeping: () => void;
	#count = 0;
	#last: WorkerFailure | undefined;

	constructor(log: Log, clock: Clock) {
		this.#clock = clock;
		this.#faults = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "relay worker ended, another takes its place",
			recovered: "relay workers have gone on for some time",
		});
		this.#stopSweeping = sweepNowAndThen([this.#faults]);
	}

	/** Since the start. */
	get count(): number {
		return this.#count;
	}

	/** Undefined where there was none. */
	get last(): WorkerFailure | undefined {
		return this.#last;
	}

	/** @param worker its number, from 0. */
	happened(worker: number, cause: unknown): void {
		this.#count += 1;
		const { message, stack = message } = cause instanceof Error ? cause : new Error(String(cause));
		this.#last = { atMs: this.#clock.wallMs(), error: message };
		this.#faults.failed(stack, { worker });
	}

	close(): void {
		this.#stopSweeping();
	}
}
