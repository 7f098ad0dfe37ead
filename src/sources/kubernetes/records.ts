/** What came out of JSON, before anyone has looked at it. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is UnknownRecord {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

export interface ObjectIdentity {
	/** "namespace/name", or "name" for an object without a namespace. */
	readonly key: string;
	readonly uid: string;
	readonly resourceVersion: string;
}

/** @returns undefined where an object has no name that could be its key. */
export function identify(raw: unknown): ObjectIdentity | undefined {
	const metadata = metadataOf(raw);
	const name = metadata["name"];
	const namespace = metadata["namespace"] ?? "";
	if (typeof name !== "string" || name === "" || typeof namespace !== "string") return undefined;
	return {
		key: namespace === "" ? name : `${namespace}/${name}`,
		uid: textOrEmpty(metadata["uid"]),
		resourceVersion: textOrEmpty(metadata["resourceVersion"]),
	};
}

/** The `metadata` of an object or a list, or an empty record. */
export function metadataOf(raw: unknown): UnknownRecord {
	const metadata = isRecord(raw) ? raw["metadata"] : undefined;
	return isRecord(metadata) ? metadata : {};
}

/** The `metadata.resourceVersion` of an object or a list; empty where there is none. */
export function resourceVersionOf(raw: unknown): string {
	return textOrEmpty(metadataOf(raw)["resourceVersion"]);
}

function textOrEmpty(value: unknown): string {
	return typeof value === "string" ? value : "";
}
