import { compareIpAddresses, type IpFamily } from "./address.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./objects.ts";
import type { Port } from "./port.ts";
import { type Endpoint, endpointKey, type Protocol } from "./service-port.ts";

/** Which of the slices' ports a ServicePort means. */
export interface EndpointSelector {
	readonly portName: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
}

/** The node that chooses, as the cluster knows it. */
export interface NodePlace {
	readonly nodeName: string;
	/** Undefined: the cluster has not said. */
	readonly zone: string | undefined;
}

export interface UsableEndpoints {
	/** For traffic that may go anywhere. */
	readonly cluster: readonly Endpoint[];
	/** For traffic that has to stay on this node. */
	readonly local: readonly Endpoint[];
	/** True when some node has one that would do. */
	readonly hasAny: boolean;
}

/** One address and port, with what all slices together say of it. */
interface Candidate {
	endpoint: Endpoint;
	isReady: boolean;
	/** Ends its work but still serves: used when nothing is ready. */
	isLastResort: boolean;
	forNodes: readonly string[];
	forZones: readonly string[];
}

/**
 * The usable endpoints over all slices of a Service, each address and port once, by address and
 * port, as kube-proxy chooses them: the ready ones (of the cluster's those that topology hints mean
 * for this node, where all have hints), or when there are none, those that still serve while they
 * terminate.
 */
export function usableEndpoints(
	slices: readonly EndpointSlice[],
	selector: EndpointSelector,
	place: NodePlace,
): UsableEndpoints {
	const candidates = joinSlices(slices, selector);
	const ready = candidates.filter(({ isReady }) => isReady);
	const lastResort = candidates.filter(({ isLastResort }) => isLastResort);
	const near = nearEndpoints(ready, place);
	const cluster = near.length > 0 ? near : lastResort;
	const isLocal = ({ endpoint }: Candidate): boolean => endpoint.nodeName === place.nodeName;
	const localReady = ready.filter(isLocal);
	const local = localReady.length > 0 ? localReady : lastResort.filter(isLocal);
	return {
		cluster: toEndpoints(cluster),
		local: toEndpoints(local),
		hasAny: ready.length > 0 || lastResort.length > 0,
	};
}

/** Addresses of ready endpoints on this node, of the selected port: what a load balancer counts. */
export function localReadyAddresses(
	slices: readonly EndpointSlice[],
	selector: EndpointSelector,
	{ nodeName }: NodePlace,
): ReadonlySet<string> {
	const local = joinSlices(slices, selector).filter(
		({ isReady, endpoint }) => isReady && endpoint.nodeName === nodeName,
	);
	return new Set(local.map(({ endpoint }) => endpoint.address));
}

/** Hints count only when every ready endpoint has some and one of them means this node. */
function nearEndpoints(
	ready: readonly Candidate[],
	{ nodeName, zone }: NodePlace,
): readonly Candidate[] {
	const isForNode = ({ forNodes }: Candidate): boolean => forNodes.includes(nodeName);
	if (ready.every(({ forNodes }) => forNodes.length > 0) && ready.some(isForNode)) {
		return ready.filter(isForNode);
	}
	if (zone === undefined || zone === "") return ready;
	const isForZone = ({ forZones }: Candidate): boolean => forZones.includes(zone);
	if (ready.every(({ forZones }) => forZones.length > 0) && ready.some(isForZone)) {
		return ready.filter(isForZone);
	}
	return ready;
}

function joinSlices(
	slices: readonly EndpointSlice[],
	selector: EndpointSelector,
): readonly Candidate[] {
	const candidates = new Map<string, Candidate>();
	for (const slice of slices) {
		for (const { port } of slice.ports.filter((port) => isSelected(slice, port, selector))) {
			for (const endpoint of slice.endpoints) addCandidate(candidates, endpoint, port);
		}
	}
	return [...candidates.values()];
}

function isSelected(slice: EndpointSlice, port: SlicePort, selector: EndpointSelector): boolean {
	return (
		slice.family === selector.family &&
		port.name === selector.portName &&
		port.protocol === selector.protocol
	);
}

function addCandidate(
	candidates: Map<string, Candidate>,
	sliceEndpoint: SliceEndpoint,
	port: Port,
): void {
	const { address, ready, serving, terminating, forNodes, forZones } = sliceEndpoint;
	const { nodeName, zone, podName } = sliceEndpoint;
	const key = endpointKey(address, port);
	const endpoint = { key, address, port, nodeName, zone, podName };
	const isLastResort = serving && terminating;
	const known = candidates.get(key);
	if (known === undefined) {
		candidates.set(key, { endpoint, isReady: ready, isLastResort, forNodes, forZones });
		return;
	}
	// An endpoint that moves between slices is in both for a while; ready in one of them counts, and
	// what that one says of it is the news.
	if (ready && !known.isReady) {
		candidates.set(key, {
			endpoint,
			isReady: true,
			isLastResort: isLastResort || known.isLastResort,
			forNodes,
			forZones,
		});
		return;
	}
	known.isLastResort ||= isLastResort;
}

function toEndpoints(candidates: readonly Candidate[]): readonly Endpoint[] {
	return candidates.map(({ endpoint }) => endpoint).toSorted(compareEndpoints);
}

function compareEndpoints(a: Endpoint, b: Endpoint): number {
	return compareIpAddresses(a.address, b.address) || a.port - b.port;
}
