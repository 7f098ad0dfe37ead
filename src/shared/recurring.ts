import { type Clock, systemClock } from "./clock.ts";
import type { Log } from "./log.ts";

/**
 * Lines about the failing side within one summary interval: enough to see what changes, far too few
 * to fill a disk.
 */
const MAX_LINES_PER_INTERVAL = 8;

/** Where {@link sweepNowAndThen} looks, nothing for so long, or up to twice that, and a failure is over. */
const QUIET_MS = 60_000;

export interface RecurringFailureOptions {
	readonly log: Log;
	/** Constant text while it fails: "cannot apply the packet rules". */
	readonly failing: string;
	/** Constant text when it is over: "packet rules are applied again". */
	readonly recovered: string;
	/** Level of the failing lines; a recovery is always `info`. */
	readonly level?: "error" | "warn";
	/** A failure that goes on with the same text is repeated this often, in milliseconds. */
	readonly summaryMs?: number;
	readonly clock?: Clock;
}

/**
 * Turns a failure that comes again and again into few log lines: one when it begins, one when its
 * text changes, one per summary interval with the count, one when it is over.
 *
 * Never more than eight failing lines per interval, however fast it flaps; what was not logged is
 * counted and told by the next line. No timers: lines come out of the calls.
 *
 * What ends a failure is {@link succeeded}; where no success is ever told, {@link sweep}.
 */
export class RecurringFailure {
	readonly #options: RecurringFailureOptions;
	readonly #clock: Clock;
	readonly #summaryMs: number;
	#problem: string | undefined;
	#failures = 0;
	#failuresAtSweep = 0;
	#beganAtMs = 0;
	#announced: string | undefined;
	#saidAtMs = 0;
	#intervalBeganAtMs = Number.NEGATIVE_INFINITY;
	#linesInInterval = 0;
	#unreported = 0;

	constructor(options: RecurringFailureOptions) {
		this.#options = options;
		this.#clock = options.clock ?? systemClock;
		this.#summaryMs = options.summaryMs ?? 60_000;
	}

	/** What goes wrong at present; undefined when all is well. */
	get problem(): string | undefined {
		return this.#problem;
	}

	/**
	 * @param text what went wrong, as a person would want to read it.
	 * @param count how often it did.
	 */
	failed(text: string, fields: object = {}, count = 1): void {
		const now = this.#clock.monotonicMs();
		if (this.#problem === undefined) {
			this.#failures = 0;
			this.#failuresAtSweep = 0;
			this.#beganAtMs = now;
			this.#announced = undefined;
		}
		this.#problem = text;
		this.#failures += count;
		const isNews = this.#announced !== text || now - this.#saidAtMs >= this.#summaryMs;
		if (!isNews || !this.#takeLine(now)) {
			this.#unreported += count;
			return;
		}
		this.#announced = text;
		this.#saidAtMs = now;
		const { log, failing, level = "warn" } = this.#options;
		log[level]({ ...fields, error: text, ...this.#counts(now) }, failing);
		this.#unreported = 0;
	}

	/** Cheap to call after every success. */
	succeeded(fields: object = {}): void {
		if (this.#problem === undefined) return;
		this.#problem = undefined;
		// A failure that nobody was told of needs no all-clear: this is what damps flapping.
		if (this.#announced === undefined) return;
		const { log, recovered } = this.#options;
		log.info({ ...fields, ...this.#counts(this.#clock.monotonicMs()) }, recovered);
		this.#unreported = 0;
	}

	/**
	 * For what may fail a thousand times a second and has no success of its own, such as a drop: it is
	 * over when it has not happened between two calls.
	 */
	sweep(): void {
		if (this.#problem === undefined) return;
		if (this.#failures === this.#failuresAtSweep) this.succeeded();
		else this.#failuresAtSweep = this.#failures;
	}

	#takeLine(now: number): boolean {
		if (now - this.#intervalBeganAtMs >= this.#summaryMs) {
			this.#intervalBeganAtMs = now;
			this.#linesInInterval = 0;
		}
		if (this.#linesInInterval >= MAX_LINES_PER_INTERVAL) return false;
		this.#linesInInterval += 1;
		return true;
	}

	#counts(now: number): object {
		return {
			failures: this.#failures,
			failingForS: Math.round((now - this.#beganAtMs) / 1_000),
			...(this.#unreported > 0 ? { unreported: this.#unreported } : {}),
		};
	}
}

/** Sweeps failures of which no success is ever told. @returns ends that. */
export function sweepNowAndThen(failures: readonly RecurringFailure[]): () => void {
	const timer = setInterval(() => {
		for (const failure of failures) failure.sweep();
	}, QUIET_MS).unref();
	return () => clearInterval(timer);
}
