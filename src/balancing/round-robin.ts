import type { Endpoint } from "../services/service-port.ts";

/** Turns are below this and a list's length: an Int32Array holds them. */
export const MAX_TURN: number = 2 ** 30;

/** Index of each endpoint of a list, by its key. */
export type Places = ReadonlyMap<string, number>;

/** A place in a rotation, which several threads may share. */
export interface Turn {
	get(): number;
	/** @returns false, and changes nothing, when it is not `from` any more. */
	move(from: number, to: number): boolean;
	/** Another list has taken the place of this one. */
	follow(before: readonly Endpoint[], after: Places): void;
}

export function placesOf(endpoints: readonly Endpoint[]): Places {
	return new Map(endpoints.map((endpoint, index) => [endpoint.key, index]));
}

/**
 * The turn in a list that has changed: that of the endpoint whose turn it was, or of the first of those after it that is
 * left.
 *
 * @returns undefined where none is left.
 */
export function turnAfter(
	turn: number,
	before: readonly Endpoint[],
	after: Places,
): number | undefined {
	for (let step = 0; step < before.length; step += 1) {
		const place = after.get(before[(turn + step) % before.length]?.key ?? "");
		if (place !== undefined) return turn - (turn % after.size) + place;
	}
	return undefined;
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

	move(_from: number, to: number): boolean {
		this.#turn = to;
		return true;
	}

	follow(before: readonly Endpoint[], after: Places): void {
		this.#turn = turnAfter(this.#turn, before, after) ?? Math.floor(this.#random() * after.size);
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
	#places: Places = new Map();
	/** Counted on and on: modulo the length of the list, the index of the endpoint whose turn it is. */
	readonly #turn: Turn;

	/**
	 * @param random uniform in [0, 1): where a rotation of its own starts.
	 * @param turn of all who share this rotation; they are to have the same endpoints, and whoever gives them those moves it
	 *   when they change.
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
		const before = this.#endpoints;
		this.#endpoints = endpoints;
		this.#places = placesOf(endpoints);
		this.#turn.follow(before, this.#places);
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
}
