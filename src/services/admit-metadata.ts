import type { FieldProblems, RawObject } from "./field-problems.ts";
import { isDnsLabel, isDnsSubdomain } from "./names.ts";

export interface Metadata {
	readonly namespace: string;
	readonly name: string;
	readonly labels: RawObject;
	/** `creationTimestamp` in milliseconds since the epoch; undefined where there is none that one can read. */
	readonly createdAtMs: number | undefined;
}

/** RFC 3339 as the API writes it. */
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/** @param isName what the API lets an object of this kind be called. */
export function readMetadata(
	raw: RawObject,
	problems: FieldProblems,
	isName: (text: string) => boolean = isDnsSubdomain,
): Metadata {
	const metadata = problems.object("metadata", raw["metadata"]) ?? {};
	const name = problems.string("metadata.name", metadata["name"], "");
	const namespace = problems.string("metadata.namespace", metadata["namespace"], "");
	if (!isName(name)) problems.add("metadata.name", "a DNS name in lower case", metadata["name"]);
	if (!isDnsLabel(namespace)) {
		problems.add("metadata.namespace", "a DNS label in lower case", metadata["namespace"]);
	}
	return {
		namespace,
		name,
		labels: readLabels(metadata, problems),
		createdAtMs: toMoment(metadata["creationTimestamp"]),
	};
}

/** It only ranks Services that claim the same address, so one that is missing or odd is no problem. */
function toMoment(value: unknown): number | undefined {
	const ms = typeof value === "string" && TIMESTAMP.test(value) ? Date.parse(value) : Number.NaN;
	return Number.isNaN(ms) ? undefined : ms;
}

/** The labels of an object's metadata; none where it has none. */
export function readLabels(metadata: RawObject, problems: FieldProblems): RawObject {
	const labels = metadata["labels"];
	if (labels === undefined || labels === null) return {};
	return problems.object("metadata.labels", labels) ?? {};
}

/**
 * The value of a label that we decide by, or undefined where the object has none of that name. A
 * value that is no string is a problem, as in "service-proxy-name: true": taken for an absent label
 * it would turn the meaning round.
 */
export function readLabel(
	labels: RawObject,
	name: string,
	problems: FieldProblems,
): string | undefined {
	if (!Object.hasOwn(labels, name)) return undefined;
	const value = labels[name];
	if (typeof value === "string") return value;
	problems.add(`metadata.labels["${name}"]`, "a string", value);
	return undefined;
}

/** A string out of a map that only informs, or undefined where it holds none of that name. */
export function labelOf(labels: RawObject, name: string): string | undefined {
	const value = Object.hasOwn(labels, name) ? labels[name] : undefined;
	return typeof value === "string" ? value : undefined;
}
