import type { Database } from "./database.ts";
import type { SeenRequest } from "./faults.ts";
import { KINDS, matchesFields, matchesLabels } from "./objects.ts";

/** What the server serves, and to whom. */
export interface Served {
	/** Which versions of discovery.k8s.io are served; default v1. */
	readonly sliceVersions?: readonly string[];
	/** Which versions of ServiceCIDRs are served; default v1. */
	readonly serviceCidrVersions?: readonly string[];
	/** "ignored": they are taken for plain watches, as servers before Kubernetes 1.19 do. */
	readonly streamingLists?: boolean | "ignored";
	/** Whether `spec.clusterIP` may be selected by, as from Kubernetes 1.31 on. */
	readonly clusterIpSelector?: boolean;
	/** A bearer token that each request must have. */
	readonly token?: string;
}

export type Answer =
	| { readonly json: unknown }
	| { readonly refusal: Refusal }
	/** A watch, of objects in this apiVersion. */
	| { readonly watchOf: string };

interface Refusal {
	readonly code: number;
	readonly reason: string;
	readonly message: string;
}

/** What an API server would say, with the words of real ones where clients look at them. */
export function answerTo(seen: SeenRequest, database: Database, served: Served): Answer {
	const refusal = refusalOf(seen, served);
	if (refusal !== undefined) return { refusal };
	if (seen.path === "/apis/discovery.k8s.io") return { json: discovery(served) };
	const apiVersion = apiVersionOf(seen.path, served) ?? "";
	if (seen.verb === "watch") return { watchOf: apiVersion };
	return list(seen, apiVersion, database);
}

function refusalOf({ headers, path, query }: SeenRequest, served: Served): Refusal | undefined {
	if (served.token !== undefined && headers.authorization !== `Bearer ${served.token}`) {
		return { code: 401, reason: "Unauthorized", message: "Unauthorized" };
	}
	const isDiscovery = path === "/apis/discovery.k8s.io" && served.sliceVersions?.length !== 0;
	if (!isDiscovery && apiVersionOf(path, served) === undefined) {
		const message = "the server could not find the requested resource";
		return { code: 404, reason: "NotFound", message };
	}
	const streams = query["sendInitialEvents"] !== undefined;
	if (streams && served.streamingLists === false) {
		const message = `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch`;
		return { code: 422, reason: "Invalid", message };
	}
	const selects = query["fieldSelector"]?.includes("spec.clusterIP") === true;
	if (selects && served.clusterIpSelector === false) {
		const message = `"spec.clusterIP" is not a known field selector: only "metadata.name", "metadata.namespace"`;
		return { code: 400, reason: "BadRequest", message };
	}
	return undefined;
}

function discovery(served: Served): unknown {
	const versions = (served.sliceVersions ?? ["v1"]).map((version) => ({
		groupVersion: `discovery.k8s.io/${version}`,
		version,
	}));
	return { kind: "APIGroup", apiVersion: "v1", name: "discovery.k8s.io", versions };
}

function apiVersionOf(path: string, served: Served): string | undefined {
	if (/^\/api\/v1\/(services|endpoints|nodes)$/.test(path)) return "v1";
	const cidrs = /^\/apis\/networking\.k8s\.io\/([^/]+)\/servicecidrs$/.exec(path)?.[1];
	if (cidrs !== undefined && (served.serviceCidrVersions ?? ["v1"]).includes(cidrs)) {
		return `networking.k8s.io/${cidrs}`;
	}
	const version = /^\/apis\/discovery\.k8s\.io\/([^/]+)\/endpointslices$/.exec(path)?.[1];
	const versions = served.sliceVersions ?? ["v1"];
	return version !== undefined && versions.includes(version)
		? `discovery.k8s.io/${version}`
		: undefined;
}

function list({ plural, query }: SeenRequest, apiVersion: string, database: Database): Answer {
	const matching = database
		.list(plural)
		.filter((object) => matchesLabels(object, query["labelSelector"] ?? ""))
		.filter((object) => matchesFields(object, query["fieldSelector"] ?? ""));
	const start = Number(query["continue"] ?? 0);
	if (Number.isNaN(start)) {
		const message = "invalid continue token: continue key is not valid";
		return { refusal: { code: 400, reason: "BadRequest", message } };
	}
	// As real servers: a list "at version 0" comes whole, whatever limit was asked for.
	const limit = query["resourceVersion"] === "0" ? 0 : Number(query["limit"] ?? 0);
	const items = limit > 0 ? matching.slice(start, start + limit) : matching.slice(start);
	const next = start + items.length;
	const more = next < matching.length ? { continue: `${next}` } : {};
	const metadata = { resourceVersion: `${database.version}`, ...more };
	return { json: { kind: `${KINDS[plural]}List`, apiVersion, metadata, items } };
}
