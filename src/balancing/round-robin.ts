import type { Endpoint } from "../services/service-port.ts";

/**
 * Endpoints in rotation: n picks in a row take each of n endpoints once.
 *
 * A change of the list keeps the place: the endpoint whose turn it was still has it, or the first
 * of those after it that is left.
 */
export class RoundRobin {
	readonly #random: () => number;
	#endpoints: readonly Endpoint[] = [];
	#places: ReadonlyMap<string, number> = new Map();
	/** Index of the endpoint whose turn it is. */
	#turn = 0;

	/** @param random uniform in [0, 1): where a rotation starts, so that nodes and Services differ. */
	constructor(random: () => number) {
		this.#random = random;
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
		this.#turn =
			kept === undefined
				? Math.floor(this.#random() * endpoints.length)
				: (this.#places.get(kept.key) ?? 0);
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
		const count = this.#endpoints.length;
		let best: Endpoint | undefined;
		let bestRank = Number.POSITIVE_INFINITY;
		let bestPlace = 0;
		for (let step = 0; step < count && bestRank > 0; step += 1) {
			const place = (this.#turn + step) % count;
			const endpoint = this.#endpoints[place];
			const endpointRank = endpoint === undefined ? bestRank : rank(endpoint);
			if (endpointRank >= bestRank) continue;
			best = endpoint;
			bestRank = endpointRank;
			bestPlace = place;
		}
		if (best !== undefined) this.#turn = (bestPlace + 1) % count;
		return best;
	}

	/** The list from the endpoint on whose turn it is. */
	#inTurn(): Endpoint[] {
		return [...this.#endpoints.slice(this.#turn), ...this.#endpoints.slice(0, this.#turn)];
	}
}
