import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { Balancer } from "../../../src/balancing/pick.ts";
import type { IpAddress } from "../../../src/services/address.ts";
import { parseIpAddress } from "../../../src/services/address.ts";
import type { SessionAffinity } from "../../../src/services/objects.ts";
import { toPort } from "../../../src/services/port.ts";
import { type Endpoint, endpointKey } from "../../../src/services/service-port.ts";

export const NO_AFFINITY: SessionAffinity = { type: "None" };
export const BY_CLIENT: SessionAffinity = { type: "ClientIP", timeoutMs: 10_800_000 };

function anAddress(text: string): IpAddress {
	const address = parseIpAddress(text);
	if (address === undefined) throw new RangeError(`Not an address: ${text}`);
	return address;
}

/** Client 1 is 10.1.0.1. */
export function aClient(number: number): IpAddress {
	return anAddress(`10.1.0.${number}`);
}

/** Endpoint 1 is 10.2.1.2:8080. */
export function anEndpoint(number: number): Endpoint {
	const address = anAddress(`10.2.${number}.2`);
	const port = toPort(8080);
	return {
		key: endpointKey(address, port),
		address,
		port,
		nodeName: undefined,
		zone: undefined,
		podName: undefined,
	};
}

export function endpoints(...numbers: number[]): Endpoint[] {
	return numbers.map(anEndpoint);
}

/** A balancer whose first rotation starts with the first endpoint, and the clock that it looks at. */
export function aBalancer(affinity: SessionAffinity, ...numbers: number[]) {
	const clock = { nowMs: 0 };
	const balancer = createBalancer({ now: () => clock.nowMs, random: () => 0 });
	balancer.update(endpoints(...numbers), affinity);
	return { balancer, clock };
}

/** The number of the endpoint that the client gets, without a word about whether it answers. */
export function pickNumber(balancer: Balancer, client = 1, ...tried: number[]) {
	const picked = balancer.pick({
		clientAddress: aClient(client),
		tried: new Set(tried.map((number) => anEndpoint(number).key)),
	});
	return picked === undefined ? undefined : Number(picked.endpoint.address.split(".")[2]);
}

/** The number of the endpoint that the client gets, and that answers. */
export function connectNumber(balancer: Balancer, client = 1) {
	const picked = balancer.pick({ clientAddress: aClient(client), tried: new Set() });
	if (picked === undefined) return undefined;
	balancer.answered(picked.endpoint, aClient(client));
	return Number(picked.endpoint.address.split(".")[2]);
}

export function times<T>(count: number, action: () => T): T[] {
	return Array.from({ length: count }, action);
}
