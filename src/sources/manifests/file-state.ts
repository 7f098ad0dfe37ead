import { isDeepStrictEqual } from "node:util";
import type { ManifestObject } from "./admit-object.ts";
import type { ManifestProblem, ParsedManifest } from "./parse-manifest.ts";

/** What counts of one file at present. */
export interface FileState {
	/** Objects that an earlier version had too, unchanged, are the very same ones. */
	readonly objects: readonly ManifestObject[];
	/** What is wrong with its newest version. */
	readonly problems: readonly ManifestProblem[];
	/** True when some version of it was good as a whole. */
	readonly wasGood: boolean;
	/** True when `objects` are those of an earlier version, or some of them are. */
	readonly isKept: boolean;
}

/**
 * The rule for a new version of a file. A good one counts. A bad one leaves in force the last version
 * that was good as a whole; where there was none, its own good objects count. One that cannot even be
 * read takes nothing away.
 */
export function nextFileState(
	before: FileState | undefined,
	{ objects, problems, isTorn }: Pick<ParsedManifest, "objects" | "problems" | "isTorn">,
): FileState {
	if (problems.length > 0 && before?.wasGood === true) {
		return { ...before, problems, isKept: true };
	}
	const known = before?.objects ?? [];
	const wasGood = problems.length === 0;
	const kept = isTorn ? missingIn(objects, known) : [];
	const isKept = kept.length > 0;
	return { objects: reuse(known, [...objects, ...kept]), problems, wasGood, isKept };
}

/** A version that cannot be read says nothing: whatever there was stays. */
export function unreadableFileState(before: FileState | undefined, problem: string): FileState {
	const faults = [{ line: undefined, text: problem }];
	return {
		objects: before?.objects ?? [],
		problems: [{ document: undefined, object: "", faults }],
		wasGood: before?.wasGood ?? false,
		isKept: before !== undefined && before.objects.length > 0,
	};
}

/** Objects of an earlier version that a later one does not have. */
function missingIn(
	after: readonly ManifestObject[],
	before: readonly ManifestObject[],
): readonly ManifestObject[] {
	const there = new Set(after.map(identify));
	return before.filter((object) => !there.has(identify(object)));
}

/** So that an edit of one object of a file is no change of all the others. */
function reuse(
	before: readonly ManifestObject[],
	after: readonly ManifestObject[],
): readonly ManifestObject[] {
	const known = new Map(before.map((object) => [identify(object), object]));
	const objects = after.map((object) => {
		const old = known.get(identify(object));
		return old !== undefined && isDeepStrictEqual(old.value, object.value)
			? withValueOf(old, object)
			: object;
	});
	const isSame =
		objects.length === before.length && objects.every((object, index) => object === before[index]);
	return isSame ? before : objects;
}

/** The old one, but for where it now stands in the file. */
function withValueOf(old: ManifestObject, object: ManifestObject): ManifestObject {
	return old.document === object.document ? old : { ...old, document: object.document };
}

function identify({ kind, key }: ManifestObject): string {
	return `${kind} ${key}`;
}
