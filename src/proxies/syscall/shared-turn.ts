import type { Turn } from "../../balancing/round-robin.ts";

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

	set(turn: number): void {
		Atomics.store(this.#turns, this.#index, turn);
	}

	/** @returns false, and changes nothing, when another thread has moved it since. */
	move(from: number, to: number): boolean {
		return Atomics.compareExchange(this.#turns, this.#index, from, to) === from;
	}

	/** Nothing: one who comes late must not move the others, and a turn that began anywhere still is. */
	restart(): void {}
}
