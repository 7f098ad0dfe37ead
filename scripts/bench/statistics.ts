/** Of several rounds: the middle one, and how far apart they are. */
export interface Spread {
	readonly median: number;
	readonly min: number;
	readonly max: number;
}

/** @param values at least one. */
export function spreadOf(values: readonly number[]): Spread {
	const sorted = values.toSorted((a, b) => a - b);
	const middle = Math.floor(sorted.length / 2);
	const upper = sorted[middle] ?? Number.NaN;
	const lower = sorted[middle - 1] ?? upper;
	return {
		median: sorted.length % 2 === 1 ? upper : (lower + upper) / 2,
		min: sorted[0] ?? Number.NaN,
		max: sorted.at(-1) ?? Number.NaN,
	};
}
