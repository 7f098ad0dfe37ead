/** Further away than this share of the word, a suggestion is noise. */
const MAX_SHARE = 0.4;

/** Longer words are nobody's typing mistake; bounds the work on input from outside. */
const MAX_LENGTH = 64;

/**
 * The candidate that a mistyped word most likely means, or undefined when none is near. Upper and
 * lower case, "-" and "_" are the same.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
	if (word.length > MAX_LENGTH) return undefined;
	const limit = Math.max(1, Math.floor(word.length * MAX_SHARE));
	let best: string | undefined;
	let bestDistance = limit + 1;
	for (const candidate of candidates) {
		const distance = editDistance(folded(word), folded(candidate));
		if (distance < bestDistance) {
			best = candidate;
			bestDistance = distance;
		}
	}
	return best;
}

function folded(word: string): string {
	return word.toLowerCase().replaceAll("_", "-");
}

/** Insertions, deletions and substitutions (Levenshtein). */
function editDistance(a: string, b: string): number {
	let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
	for (let row = 0; row < a.length; row += 1) {
		const current = [row + 1];
		for (let column = 0; column < b.length; column += 1) {
			const substitution = (previous[column] ?? 0) + (a[row] === b[column] ? 0 : 1);
			const insertion = (current[column] ?? 0) + 1;
			const deletion = (previous[column + 1] ?? 0) + 1;
			current.push(Math.min(substitution, insertion, deletion));
		}
		previous = current;
	}
	return previous[b.length] ?? 0;
}
