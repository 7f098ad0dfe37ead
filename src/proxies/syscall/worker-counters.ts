import { COUNTER_COUNT, COUNTERS, type SharedState } from "./messages.ts";

/** The numbers of one worker in the memory that all share; only the worker itself writes them. */
export class WorkerCounters {
	readonly #counters: Float64Array;
	readonly #first: number;

	constructor({ counters }: SharedState, index: number) {
		this.#counters = counters;
		this.#first = index * COUNTER_COUNT;
	}

	get(name: keyof typeof COUNTERS): number {
		return this.#counters[this.#first + COUNTERS[name]] ?? 0;
	}

	set(name: keyof typeof COUNTERS, value: number): void {
		this.#counters[this.#first + COUNTERS[name]] = value;
	}

	/** @returns the number now. */
	increase(name: keyof typeof COUNTERS): number {
		const value = this.get(name) + 1;
		this.set(name, value);
		return value;
	}
}
