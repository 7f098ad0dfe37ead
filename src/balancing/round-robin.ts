import type { Endpoint } from "../services/service-port.ts";

/** Turns are below this and a list's length: an Int32Array holds them. */
export const MAX_TURN: number = 2 ** 30;

/** A place in a rotation, which several threads may share. */
export interface Turn {
	get(): number;
	set(turn: number): void;
	/** @returns false, and changes nothing, when it is not `from` any more. */
	move(from: number, to: number): boolean;
	/** None of the endpoints that were in rotation is left; there are so many others. */
	restart(count: number): void;
}

/** Begins somewhere, so that nodes and Services differ. */
class OwnTurn implements Turn {
	readonly #random: () => number;
	#turn = 0;

	/** @param random uniform in [0, 1). */
	constructor(random: () => number) {
		this.#random = random;
	}

	get(): number {
		return this.#turn;
	}

	set(turn: number): void {
		this.#turn = turn;
	}

	move(_from: number, to: number): boolean {
		this.#turn = to;
		return true;
	}

	restart(count: number): void {
		this.#turn = Math.floor(this.#random() * count);
	}
}

/**
 * Endpoints in rotation: n picks in a row take each of n endpoints once.
 *
 * A change of the list keeps the place: the endpoint whose turn it was still has it, or the first
 * of those after it that is left.
 */
export class RoundRobin {
	#endpoints: readonly Endpoint[] = [];
	#places: ReadonlyMap<string, number> = new Map();
	/** Counted on and on: modulo the length of the list, the index of the endpoint whose turn it is. */
	readonly #turn: Turn;

	/**
	 * @param random uniform in [0, 1): where a rotation of its own starts.
	 * @param turn of all who share this rotation; they are to have the same endpoints.
	 */
	constructor(random: () => number, turn: Turn = new OwnTurn(random)) {
		this.#turn = turn;
	}

	get size(): number {
		return this.#endpoints.length;
	}

	/** @param endpoints each key once. */
	update(endpoints: readonly Endpoint[]): void {
		if (endpoints === this.#endpoints) return;
		const before = this.#inTurn();
		this.#endpoints = endpoints;
		this.#places = new Map(endpoints.map((endpoint, index) => [endpoint.key, index]));
		const kept = before.find((endpoint) => this.#places.has(endpoint.key));
		if (kept === undefined) {
			this.#turn.restart(endpoints.length);
		} else {
			const turn = this.#turn.get();
			const place = this.#places.get(kept.key) ?? 0;
			this.#turn.set(turn - (turn % endpoints.length) + place);
		}
	}

	get endpoints(): readonly Endpoint[] {
		return this.#endpoints;
	}

	/** The endpoint of that key as it is in the list now. */
	get(endpointKey: string): Endpoint | undefined {
		const place = this.#places.get(endpointKey);
		return place === undefined ? undefined : this.#endpoints[place];
	}

	has(endpointKey: string): boolean {
		return this.#places.has(endpointKey);
	}

	/**
	 * Takes the endpoint with the lowest rank, by turn where several have it.
	 *
	 * @param rank 0 is the best: the search ends there.
	 */
	next(rank: (endpoint: Endpoint) => number): Endpoint | undefined {
		for (;;) {
			const turn = this.#turn.get();
			const step = this.#best(turn, rank);
			if (step === undefined) return undefined;
			const count = this.#endpoints.length;
			const following = turn + step + 1;
			// Another thread may have taken this place meanwhile.
			if (this.#turn.move(turn, following < MAX_TURN ? following : following % count)) {
				return this.#endpoints[(turn + step) % count];
			}
		}
	}

	/** How far from this turn the endpoint with the lowest rank is, the first where several have it. */
	#best(turn: number, rank: (endpoint: Endpoint) => number): number | undefined {
		const count = this.#endpoints.length;
		let bestRank = Number.POSITIVE_INFINITY;
		let bestStep: number | undefined;
		for (let step = 0; step < count && bestRank > 0; step += 1) {
			const endpoint = this.#endpoints[(turn + step) % count];
			const endpointRank = endpoint === undefined ? bestRank : rank(endpoint);
			if (endpointRank >= bestRank) continue;
			bestRank = endpointRank;
			bestStep = step;
		}
		return bestStep;
	}

	/** The list from the endpoint on whose turn it is. */
	#inTurn(): Endpoint[] {
		const turn = this.#turn.get() % Math.max(1, this.#endpoints.length);
		return [...this.#endpoints.slice(turn), ...this.#endpoints.slice(0, turn)];
	}
}
