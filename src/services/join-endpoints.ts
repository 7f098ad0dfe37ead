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

interface Candidate {
	endpoint: Endpoint;
	isReady: boolean;
	/** Ends its work but still serves: used when nothing is ready. */
	isLastResort: boolean;
}

/**
 * The usable endpoints over all slices of a Service, each address and port once, by address and
 * port: the ready ones, or when there are none, those that still serve while they terminate.
 */
export function joinEndpoints(
	slices: readonly EndpointSlice[],
	selector: EndpointSelector,
): readonly Endpoint[] {
	const candidates = new Map<string, Candidate>();
	for (const slice of slices) {
		for (const { port } of slice.ports.filter((port) => isSelected(slice, port, selector))) {
			for (const endpoint of slice.endpoints) addCandidate(candidates, endpoint, port);
		}
	}
	const all = [...candidates.values()];
	const ready = all.filter((candidate) => candidate.isReady);
	const usable = ready.length > 0 ? ready : all.filter((candidate) => candidate.isLastResort);
	return usable.map(({ endpoint }) => endpoint).toSorted(compareEndpoints);
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
	endpoint: SliceEndpoint,
	port: Port,
): void {
	const { address, ready, serving, terminating, nodeName, zone, podName } = endpoint;
	const key = endpointKey(address, port);
	const isLastResort = serving && terminating;
	const known = candidates.get(key);
	if (known === undefined) {
		candidates.set(key, {
			endpoint: { key, address, port, nodeName, zone, podName },
			isReady: ready,
			isLastResort,
		});
		return;
	}
	// An endpoint that moves between slices is in both for a while; ready in one of them counts, and
	// what that one says of it is the news.
	if (ready && !known.isReady) {
		known.isReady = true;
		known.endpoint = { key, address, port, nodeName, zone, podName };
	}
	known.isLastResort ||= isLastResort;
}

function compareEndpoints(a: Endpoint, b: Endpoint): number {
	return compareIpAddresses(a.address, b.address) || a.port - b.port;
}
