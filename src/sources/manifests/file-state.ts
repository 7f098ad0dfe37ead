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
	/** True when `objects` are those of an earlier version. */
	readonly isKept: boolean;
}

/**
 * The rule for a new version of a file. A good one counts. A bad one leaves in force the last version
 * that was good as a whole; where there was none, its own good objects count.
 */
export function nextFileState(
	before: FileState | undefined,
	{ objects, problems }: Pick<ParsedManifest, "objects" | "problems">,
): FileState {
	if (problems.length > 0 && before?.wasGood === true) {
		return { ...before, problems, isKept: true };
	}
	const wasGood = problems.length === 0;
	return { objects: reuse(before?.objects ?? [], objects), problems, wasGood, isKept: false };
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
