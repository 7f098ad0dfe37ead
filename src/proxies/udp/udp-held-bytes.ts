/**
 * How many bytes of datagrams the flows of one engine may hold together, while a socket opens, the
 * kernel takes no more, or it is not known yet whether the endpoint is there.
 *
 * Bounds the whole where a bound per flow, times tens of thousands of flows, would be no bound.
 */
export class HeldBytes {
	readonly #limit: number;
	#held = 0;

	constructor(limit: number) {
		this.#limit = limit;
	}

	get held(): number {
		return this.#held;
	}

	/** @returns false, and holds nothing, when it would be too much. */
	tryHold(bytes: number): boolean {
		if (this.#held + bytes > this.#limit) return false;
		this.#held += bytes;
		return true;
	}

	release(bytes: number): void {
		this.#held -= bytes;
	}
}
