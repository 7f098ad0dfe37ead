import { oneLine } from "../one-line.ts";
import { ApiError, type Asked } from "./api-errors.ts";
import { notJsonError } from "./body.ts";
import { isRecord, type UnknownRecord } from "./records.ts";

interface Wanted {
	readonly kind: string;
	readonly apiVersion: string;
}

/**
 * The body of an answer, which is to be of this kind.
 *
 * Anything else would count as one that is empty.
 *
 * @throws {ApiError} "wrong-kind"; "bad-answer" where it is no object at all.
 */
export function requireAnswer(body: unknown, wanted: Wanted, asked: Asked): UnknownRecord {
	if (!isRecord(body)) throw notJsonError({ asked });
	const { kind, apiVersion } = wanted;
	if (body["kind"] === kind && body["apiVersion"] === apiVersion) return body;
	throw wrongKind(describeKind(body), wanted, asked);
}

/**
 * The items of a list's page, none of which says that it is of another kind. In lists, API servers
 * leave kind and version out of the items.
 *
 * @param wanted of the items.
 * @throws {ApiError} as {@link requireAnswer}.
 */
export function requireItems(body: unknown, wanted: Wanted, asked: Asked): readonly unknown[] {
	const list = { kind: `${wanted.kind}List`, apiVersion: wanted.apiVersion };
	const { items: listed } = requireAnswer(body, list, asked);
	// An empty list may come as null: that is how Go writes a nil slice. It never leaves the field out.
	const items = listed === null ? [] : listed;
	if (!Array.isArray(items))
		throw wrongKind(`${withArticle(list.kind)} without items`, list, asked);
	for (const item of items) {
		if (!isOther(item, wanted)) continue;
		throw wrongKind(`${describeKind(item)} in its ${list.kind}`, list, asked);
	}
	return items;
}

/**
 * Lets pass the object of a watch's event unless it says that it is of another kind.
 *
 * @throws {ApiError} "wrong-kind"
 */
export function requireKind(object: unknown, wanted: Wanted, asked: Asked): void {
	if (isOther(object, wanted)) throw wrongKind(describeKind(object), wanted, asked);
}

/** What is no object at all is left to those who look into it. */
function isOther(object: unknown, wanted: Wanted): object is UnknownRecord {
	if (!isRecord(object)) return false;
	const { kind = wanted.kind } = object;
	// Who names a kind names its version.
	const { apiVersion = "kind" in object ? undefined : wanted.apiVersion } = object;
	return kind !== wanted.kind || apiVersion !== wanted.apiVersion;
}

function wrongKind(got: string, wanted: Wanted, { server, verb, plural }: Asked): ApiError {
	return new ApiError(
		"wrong-kind",
		`The API server at ${server} answers "${verb}" on "${plural}" with ${got}, wanted ${withArticle(wanted.kind)} of ${wanted.apiVersion}: check that the address is that of a Kubernetes API server`,
	);
}

function describeKind({ kind, apiVersion }: UnknownRecord): string {
	if (typeof kind !== "string" || kind === "") return "something without a kind";
	const version = typeof apiVersion === "string" ? oneLine(apiVersion, 60) : "no version";
	return `${withArticle(oneLine(kind, 60))} of ${version}`;
}

function withArticle(noun: string): string {
	return `${/^[AEIO]/.test(noun) ? "an" : "a"} ${noun}`;
}
