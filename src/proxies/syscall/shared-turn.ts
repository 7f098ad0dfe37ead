import { type Places, type Turn, turnAfter } from "../../balancing/round-robin.ts";
import type { Endpoint } from "../../services/service-port.ts";

/** Whose turn it is, over all workers that serve a ServicePort. */
export class SharedTurn implements Turn {
	readonly #turns: Int32Array;
	readonly #index: number;

	constructor(turns: Int32Array, index: number) {
		this.#turns = turns;
		this.#index = index;
	}

	get(): number {
		return Atomics.load(this.#turns, this.#index);
	}

	/** @returns false, and changes nothing, when another thread has moved it since. */
	move(from: number, to: number): boolean {
		return Atomics.compareExchange(this.#turns, this.#index, from, to) === from;
	}

	/** Nothing: {@link keepPlace} is done once, and not by each worker when it comes to it. */
	follow(): void {}

	/** For whoever gives all workers another list: the turn stays with its endpoint. Where none is left, it is anywhere. */
	keepPlace(before: readonly Endpoint[], after: Places): void {
		for (;;) {
			const turn = this.get();
			const kept = turnAfter(turn, before, after);
			// A worker may have picked meanwhile.
			if (kept === undefined || this.move(turn, kept)) return;
		}
	}
}
