const BUCKET_MS = 0.001;
/** What takes longer counts as this. */
const MAX_MS = 1_000;

/** How often each latency was seen, to the microsecond: memory and time do not grow with their number. */
export class LatencyCounts {
	readonly #counts = new Uint32Array(MAX_MS / BUCKET_MS + 1);
	#count = 0;

	get count(): number {
		return this.#count;
	}

	add(ms: number): void {
		const bucket = Math.min(this.#counts.length - 1, Math.max(0, Math.round(ms / BUCKET_MS)));
		this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
		this.#count += 1;
	}

	/** The latency that this share of all is not above; NaN: there was none. */
	quantileMs(share: number): number {
		const wanted = Math.max(1, Math.ceil(this.#count * share));
		let seen = 0;
		for (let bucket = 0; bucket < this.#counts.length; bucket += 1) {
			seen += this.#counts[bucket] ?? 0;
			if (seen >= wanted) return bucket * BUCKET_MS;
		}
		return Number.NaN;
	}
}
