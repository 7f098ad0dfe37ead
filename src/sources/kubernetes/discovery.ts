import { ApiError } from "./api-errors.ts";
import { readJson } from "./body.ts";
import { isRecord } from "./records.ts";
import { requireAnswer } from "./require-kind.ts";
import type { SliceVersion } from "./resources.ts";
import type { Transport } from "./transport.ts";

const GROUP = {
	plural: "endpointslices",
	group: "discovery.k8s.io",
	path: "/apis/discovery.k8s.io",
} as const;
const API_GROUP = { kind: "APIGroup", apiVersion: "v1" } as const;
const MAX_BYTES = 1024 * 1024;

/**
 * Which kind of endpoints this cluster serves, the best first: EndpointSlices v1 (from Kubernetes
 * 1.21), v1beta1 (1.17 to 1.24), or Endpoints.
 *
 * @param refused versions that the server turned down although it names them.
 * @throws {ApiError} when the server cannot be asked.
 */
export async function chooseSliceVersion(
	transport: Transport,
	refused: ReadonlySet<SliceVersion>,
	timeoutMs: number,
	signal: AbortSignal,
): Promise<SliceVersion> {
	const served = await servedVersions(transport, timeoutMs, signal);
	const wanted = ["v1", "v1beta1"] as const;
	return wanted.find((version) => served.has(version) && !refused.has(version)) ?? "endpoints";
}

async function servedVersions(
	transport: Transport,
	timeoutMs: number,
	signal: AbortSignal,
): Promise<ReadonlySet<string>> {
	try {
		const request = { verb: "get", resource: GROUP, query: {}, headersMs: timeoutMs } as const;
		const response = await transport.get(request, signal);
		const bounds = { idleMs: () => timeoutMs, totalMs: timeoutMs, maxBytes: MAX_BYTES };
		const body = await readJson(response, bounds);
		const { versions: listed } = requireAnswer(body, API_GROUP, response.asked);
		const versions = Array.isArray(listed) ? listed : [];
		return new Set(versions.map((entry) => (isRecord(entry) ? String(entry["version"]) : "")));
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (error.status === 404) return new Set();
		// Clusters may hide discovery; the lists tell then, by a 404 each.
		if (error.status === 403) return new Set(["v1", "v1beta1"]);
		throw error;
	}
}
