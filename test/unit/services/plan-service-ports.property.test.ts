import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { compareIpAddresses, ipFamilyOf } from "../../../src/services/address.ts";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import { admitService } from "../../../src/services/admit-service.ts";
import { type EndpointSlice, objectKey, type Snapshot } from "../../../src/services/objects.ts";
import {
	createServicePortPlanner,
	planServicePorts,
	type ServicePortPlan,
} from "../../../src/services/plan-service-ports.ts";
import type { ServicePort } from "../../../src/services/service-port.ts";
import { arbitraryService, arbitrarySlice } from "../../kit/arbitrary-objects.ts";
import { admitted, snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

const OPTIONS = { serviceProxyName: undefined };

const services = fc.array(arbitraryService, { maxLength: 5 });
const slices = fc.array(arbitrarySlice, { maxLength: 5 });
const snapshot = fc.tuple(services, slices).map(([some, more]) => snapshotOf(some, more));

describe("planServicePorts() of any snapshot", () => {
	it("keeps what it promises of ServicePorts and endpoints", () => {
		fc.assert(
			fc.property(snapshot, (state) => {
				const plan = planServicePorts(state, plainView, OPTIONS);
				expect(faultsOfPlan(plan)).toEqual([]);
				expect(plan.servicePorts.flatMap((each) => strayEndpoints(each, state))).toEqual([]);
			}),
			{ numRuns: 10_000 },
		);
	});

	it("serves every port of every Service that it should, or says why not", () => {
		fc.assert(
			fc.property(snapshot, (state) => {
				const { servicePorts, unserved } = planServicePorts(state, plainView, OPTIONS);
				const named = new Set([...servicePorts, ...unserved].map(({ name }) => name));
				const wanted = [...state.services.values()]
					.filter(({ kind, proxyName }) => kind === "addressed" && proxyName === undefined)
					.flatMap((service) => service.ports.map(({ name }) => `${objectKey(service)}:${name}`));
				expect(named).toEqual(new Set(wanted));
			}),
			{ numRuns: 2_000 },
		);
	});

	it("gives the same plan for any order of the same objects", () => {
		const shuffled = snapshot.chain((state) =>
			fc.tuple(fc.constant(state), shuffle(state.services), shuffle(state.endpointSlices)),
		);
		fc.assert(
			fc.property(shuffled, ([state, otherServices, otherSlices]) => {
				const other = { ...state, services: otherServices, endpointSlices: otherSlices };
				expect(planServicePorts(other, plainView, OPTIONS)).toEqual(
					planServicePorts(state, plainView, OPTIONS),
				);
			}),
			{ numRuns: 5_000 },
		);
	});
});

/** One object is put or taken away. */
const change = fc.oneof(
	fc.tuple(arbitraryService, fc.boolean()).map(([raw, isThere]) => (state: Snapshot) => {
		const service = admitted(admitService(raw));
		return { ...state, services: withChange(state.services, service, isThere) };
	}),
	fc.tuple(arbitrarySlice, fc.boolean()).map(([raw, isThere]) => (state: Snapshot) => {
		const slice = admitted(admitEndpointSlice(raw));
		return { ...state, endpointSlices: withChange(state.endpointSlices, slice, isThere) };
	}),
	fc.constant((state: Snapshot) => ({ ...state })),
);

describe("createServicePortPlanner() after any changes", () => {
	it("gives what a fresh plan gives, and the same objects for what did not change", () => {
		fc.assert(
			fc.property(snapshot, fc.array(change, { maxLength: 12 }), (start, changes) => {
				const planner = createServicePortPlanner(OPTIONS);
				let state: Snapshot = start;
				planner.plan(state, plainView);
				for (const act of changes) {
					state = act(state);
					const plan = planner.plan(state, plainView);
					expect(plan).toEqual(planServicePorts(state, plainView, OPTIONS));
					const again = planner.plan({ ...state }, plainView);
					expect(again.servicePorts.every((each, n) => each === plan.servicePorts[n])).toBe(true);
				}
			}),
			{ numRuns: 2_000 },
		);
	});
});

function withChange<T extends { readonly namespace: string; readonly name: string }>(
	map: ReadonlyMap<string, T>,
	object: T,
	isThere: boolean,
): ReadonlyMap<string, T> {
	const next = new Map(map);
	// Taken away first: it comes last in the map, as after an event of the API.
	next.delete(objectKey(object));
	if (isThere) next.set(objectKey(object), object);
	return next;
}

function shuffle<T>(map: ReadonlyMap<string, T>): fc.Arbitrary<ReadonlyMap<string, T>> {
	const entries = [...map];
	return fc
		.shuffledSubarray(entries, { minLength: entries.length })
		.map((shuffled) => new Map(shuffled));
}

function faultsOfPlan({ servicePorts, unserved }: ServicePortPlan): string[] {
	const keys = servicePorts.map(({ key }) => key);
	const names = unserved.map(({ name }) => name);
	return [
		...(isSortedAndUnique(keys) ? [] : [`keys ${keys.join(" ")}`]),
		...doubleClaims(servicePorts),
		...(names.every((name, index) => index === 0 || (names[index - 1] ?? "") <= name)
			? []
			: [`unserved ${names.join(" ")}`]),
		...servicePorts.flatMap(faultsOfServicePort),
		...loopsIn(servicePorts),
	];
}

/** Addresses and node ports that two ServicePorts have for the same clients, or that two Services have. */
function doubleClaims(servicePorts: readonly ServicePort[]): string[] {
	const claims = servicePorts.flatMap((servicePort) => {
		const { name, family, port, protocol, virtualAddresses, nodePort } = servicePort;
		return [
			...virtualAddresses.map(({ address, clients }) => ({
				slot: `${address} ${port} ${protocol}`,
				name,
				clients,
			})),
			...(nodePort === undefined
				? []
				: [{ slot: `${family} ${nodePort.port} ${protocol}`, name, clients: nodePort.clients }]),
		];
	});
	return [...Map.groupBy(claims, ({ slot }) => slot)]
		.filter(([, all]) => {
			const clients = all.map((claim) => claim.clients);
			const isShared = clients.includes("all") && clients.length > 1;
			const isTwice = new Set(clients).size < clients.length;
			return isShared || isTwice || new Set(all.map(({ name }) => name)).size > 1;
		})
		.map(([slot]) => slot);
}

function faultsOfServicePort(servicePort: ServicePort): string[] {
	const { key, family, virtualAddresses, nodePort, endpoints } = servicePort;
	const all = [...virtualAddresses, ...endpoints];
	const isSorted = endpoints.every((endpoint, index) => {
		const before = endpoints[index - 1];
		if (before === undefined) return true;
		const order = compareIpAddresses(before.address, endpoint.address);
		return order < 0 || (order === 0 && before.port < endpoint.port);
	});
	return [
		...(virtualAddresses.length > 0 || nodePort !== undefined ? [] : [`${key} has no address`]),
		...(all.every(({ address }) => ipFamilyOf(address) === family)
			? []
			: [`${key} mixes families`]),
		...(isSorted ? [] : [`${key} has endpoints out of order or twice`]),
	];
}

function loopsIn(servicePorts: readonly ServicePort[]): string[] {
	const own = new Set(
		servicePorts
			.flatMap(({ virtualAddresses }) => virtualAddresses.map(({ address }) => address))
			// Ports of the node that no Service has are good endpoints.
			.filter((address) => !plainView.addresses.has(address)),
	);
	return servicePorts.flatMap(({ key, endpoints }) =>
		endpoints
			.filter(({ address }) => own.has(address))
			.map(({ address }) => `${key} to ${address}`),
	);
}

/** Endpoints that no slice of the Service has under this port's name and protocol, or not usably. */
function strayEndpoints(servicePort: ServicePort, state: Snapshot): string[] {
	const own = [...state.endpointSlices.values()].filter(
		({ namespace, serviceName }) =>
			namespace === servicePort.namespace && serviceName === servicePort.serviceName,
	);
	return servicePort.endpoints
		.filter(({ key }) => !own.some((slice) => isUsableIn(slice, servicePort, key)))
		.map(({ key }) => `${servicePort.key} has ${key}`);
}

function isUsableIn(
	slice: EndpointSlice,
	{ portName, protocol }: ServicePort,
	key: string,
): boolean {
	return slice.ports
		.filter((port) => port.name === portName && port.protocol === protocol)
		.some(({ port }) =>
			slice.endpoints.some(
				({ address, ready, serving, terminating }) =>
					(ready || (serving && terminating)) &&
					(address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`) === key,
			),
		);
}

function isSortedAndUnique(texts: readonly string[]): boolean {
	return texts.every((text, index) => index === 0 || (texts[index - 1] ?? "") < text);
}
