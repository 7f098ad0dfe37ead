import { type FieldProblems, isRawObject, type RawObject } from "./field-problems.ts";
import { isDnsLabel, isDnsSubdomain } from "./names.ts";

export interface Metadata {
	readonly namespace: string;
	readonly name: string;
	readonly labels: RawObject;
}

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
	const labels = metadata["labels"];
	return { namespace, name, labels: isRawObject(labels) ? labels : {} };
}

/** The value of a label, or undefined where the object has none of that name. */
export function labelOf(labels: RawObject, name: string): string | undefined {
	const value = Object.hasOwn(labels, name) ? labels[name] : undefined;
	return typeof value === "string" ? value : undefined;
}
