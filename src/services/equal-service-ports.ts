import type { SessionAffinity } from "./objects.ts";
import type { Endpoint, NodePort, ServicePort, VirtualAddress } from "./service-port.ts";

/** True when the two mean the same in every field, endpoints and their order included. */
export function isEqualServicePort(a: ServicePort, b: ServicePort): boolean {
	if (a === b) return true;
	// Namespace, names, protocol, family and pool are in the key.
	return (
		a.key === b.key &&
		a.port === b.port &&
		a.whenEmpty === b.whenEmpty &&
		isEqualNodePort(a.nodePort, b.nodePort) &&
		isEqualAffinity(a.sessionAffinity, b.sessionAffinity) &&
		isEqualList(a.virtualAddresses, b.virtualAddresses, isEqualAddress) &&
		isEqualList(a.endpoints, b.endpoints, isEqualEndpoint)
	);
}

function isEqualAffinity(a: SessionAffinity, b: SessionAffinity): boolean {
	const timeoutOf = (affinity: SessionAffinity) =>
		affinity.type === "ClientIP" ? affinity.timeoutMs : undefined;
	return a.type === b.type && timeoutOf(a) === timeoutOf(b);
}

/** True when the two are the same address for the same clients. */
export function isEqualAddress(a: VirtualAddress, b: VirtualAddress): boolean {
	return (
		a.kind === b.kind &&
		a.address === b.address &&
		a.clients === b.clients &&
		isEqualList(a.sourceRanges, b.sourceRanges, (one, other) => one === other)
	);
}

/** True when the two are the same port for the same clients, or both absent. */
export function isEqualNodePort(a: NodePort | undefined, b: NodePort | undefined): boolean {
	return a?.port === b?.port && a?.clients === b?.clients;
}

function isEqualEndpoint(a: Endpoint, b: Endpoint): boolean {
	return (
		a.key === b.key && a.nodeName === b.nodeName && a.zone === b.zone && a.podName === b.podName
	);
}

/** Same length, and equal one by one. */
export function isEqualList<T>(
	a: readonly T[],
	b: readonly T[],
	isEqual: (a: T, b: T) => boolean,
): boolean {
	return (
		a === b ||
		(a.length === b.length &&
			a.every((item, index) => {
				const other = b[index];
				return other !== undefined && (item === other || isEqual(item, other));
			}))
	);
}
