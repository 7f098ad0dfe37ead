import { ApiError, type Asked, oneLine } from "./api-errors.ts";
import { isRecord, type UnknownRecord } from "./records.ts";
import type { Resource } from "./resources.ts";

type Wanted = Pick<Resource, "kind" | "apiVersion">;

/**
 * The items of a list's page, none of which says that it is of another kind. In lists, API servers
 * leave kind and version out of the items.
 *
 * Anything else than the list that was asked for would count as an empty cluster, or as one without
 * the objects that are missing here.
 *
 * @throws {ApiError} "wrong-kind"
 */
export function requireItems(
	body: UnknownRecord,
	wanted: Wanted,
	asked: Asked,
): readonly unknown[] {
	const { kind, apiVersion } = wanted;
	const list = { kind: `${kind}List`, apiVersion };
	if (body["kind"] !== list.kind || body["apiVersion"] !== apiVersion) {
		throw wrongKind(describeKind(body), list, asked);
	}
	// An empty list may come as null: that is how Go writes a nil slice. It never leaves the field out.
	const items = body["items"] === null ? [] : body["items"];
	if (!Array.isArray(items)) throw wrongKind(`a ${list.kind} without items`, list, asked);
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

function wrongKind(
	got: string,
	wanted: { readonly kind: string; readonly apiVersion: string },
	{ server, verb, plural }: Asked,
): ApiError {
	return new ApiError(
		"wrong-kind",
		`The API server at ${server} answers "${verb}" on "${plural}" with ${got}, wanted a ${wanted.kind} of ${wanted.apiVersion}: check that the address is that of a Kubernetes API server`,
	);
}

function describeKind({ kind, apiVersion }: UnknownRecord): string {
	if (typeof kind !== "string" || kind === "") return "something without a kind";
	const version = typeof apiVersion === "string" ? oneLine(apiVersion, 60) : "no version";
	return `a ${oneLine(kind, 60)} of ${version}`;
}
