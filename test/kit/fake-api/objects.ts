/** A Kubernetes object as the fake server keeps it: nothing is checked, bad ones are the point. */
export interface ApiObject {
	readonly apiVersion?: string;
	readonly kind: string;
	readonly metadata: {
		readonly name: string;
		readonly namespace?: string;
		readonly uid?: string;
		readonly resourceVersion?: string;
		readonly labels?: Readonly<Record<string, string>>;
		readonly annotations?: Readonly<Record<string, string>>;
	};
	readonly [field: string]: unknown;
}

/** "services" for "Service". */
export const PLURALS: Readonly<Record<string, string>> = {
	Service: "services",
	EndpointSlice: "endpointslices",
	Endpoints: "endpoints",
	ServiceCIDR: "servicecidrs",
	Node: "nodes",
};

/** "Service" for "services". */
export const KINDS: Readonly<Record<string, string>> = Object.fromEntries(
	Object.entries(PLURALS).map(([kind, plural]) => [plural, kind]),
);

export function keyOf(object: ApiObject): string {
	return `${object.metadata.namespace ?? ""}/${object.metadata.name}`;
}

/** `!label`, `label`, `label=value`, `label!=value`, joined by commas. */
export function matchesLabels(object: ApiObject, selector: string): boolean {
	const labels = object.metadata.labels ?? {};
	return selector
		.split(",")
		.filter((term) => term !== "")
		.every((term) => {
			if (term.startsWith("!")) return !(term.slice(1) in labels);
			const [, key = "", not, value] = /^([^!=]+?)(!?)=+(.*)$/.exec(term) ?? [];
			if (key === "") return term in labels;
			return not === "!" ? labels[key] !== value : labels[key] === value;
		});
}

/** `metadata.name=x` and `spec.clusterIP!=None`, joined by commas. */
export function matchesFields(object: ApiObject, selector: string): boolean {
	return selector
		.split(",")
		.filter((term) => term !== "")
		.every((term) => {
			const [, path = "", not, wanted] = /^([^!=]+?)(!?)=+(.*)$/.exec(term) ?? [];
			const value = valueAt(object, path);
			const found = typeof value === "string" ? value : "";
			return not === "!" ? found !== wanted : found === wanted;
		});
}

function valueAt(object: ApiObject, path: string): unknown {
	let value: unknown = object;
	for (const part of path.split(".")) {
		if (typeof value !== "object" || value === null) return undefined;
		value = new Map(Object.entries(value)).get(part);
	}
	return value;
}
