import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { type IpAddress, ipFamilyOf } from "../../../src/services/address.ts";
import {
	objectKey,
	type Service,
	type ServicePortSpec,
	type Snapshot,
} from "../../../src/services/objects.ts";
import {
	createServicePortPlanner,
	planServicePorts,
} from "../../../src/services/plan-service-ports.ts";
import { endpointKey } from "../../../src/services/service-port.ts";
import { arbitraryService, arbitrarySlice } from "../../kit/arbitrary-objects.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

const OPTIONS = { serviceProxyName: undefined };

const raws = fc.record({
	services: fc.array(arbitraryService, { maxLength: 6 }),
	slices: fc.array(arbitrarySlice, { maxLength: 8 }),
});

/** The rules told once more, plainly: every endpoint that a port of a Service may use, loops too. */
function usableOf(
	{ endpointSlices }: Snapshot,
	service: Service,
	port: ServicePortSpec,
	ip: IpAddress,
	isLocal: boolean,
) {
	const found = [...endpointSlices.values()]
		.filter(
			({ namespace, serviceName }) =>
				objectKey({ namespace, name: serviceName }) === objectKey(service),
		)
		.filter(({ family }) => family === ipFamilyOf(ip))
		.toSorted((a, b) => (a.name < b.name ? -1 : 1))
		.flatMap(({ ports, endpoints }) =>
			ports
				.filter(({ name, protocol }) => name === port.name && protocol === port.protocol)
				.flatMap(({ port: number }) =>
					endpoints.map((endpoint) => ({
						...endpoint,
						key: endpointKey(endpoint.address, number),
					})),
				),
		);
	const isHere = ({ key }: { readonly key: string }): boolean => {
		// The first that calls it ready, else the first at all, says where it is.
		const all = found.filter((each) => each.key === key);
		const witness = all.find(({ ready }) => ready) ?? all[0];
		return !isLocal || witness?.nodeName === plainView.nodeName;
	};
	const ready = found.filter((endpoint) => endpoint.ready && isHere(endpoint));
	return ready.length > 0
		? ready
		: found.filter((each) => each.serving && each.terminating && isHere(each));
}

/** Keys of the endpoints by "shop/cart:http/tcp/ipv4". */
function usableByPort(snapshot: Snapshot, isVirtual: (address: IpAddress) => boolean) {
	const served = [...snapshot.services.values()].filter(({ proxyName }) => proxyName === undefined);
	return new Map(
		served.flatMap((service) =>
			service.ports.flatMap((port) =>
				service.clusterIps.flatMap((ip) =>
					["", "/local"].map((pool) => {
						const key = `${objectKey(service)}:${port.name}/${port.protocol}/${ipFamilyOf(ip)}${pool}`;
						const usable = usableOf(snapshot, service, port, ip, pool !== "");
						const good = usable.filter(({ address }) => !isVirtual(address));
						return [key, new Set(good.map((each) => each.key))] as const;
					}),
				),
			),
		),
	);
}

describe("planServicePorts() beside a plainer account of the same rules", () => {
	it("uses exactly the endpoints that it gives", () => {
		fc.assert(
			fc.property(raws, ({ services, slices }) => {
				const snapshot = snapshotOf(services, slices);
				const { servicePorts } = planServicePorts(snapshot, plainView, OPTIONS);
				const virtual = new Set(
					servicePorts.flatMap((each) => each.virtualAddresses.map(({ address }) => address)),
				);
				const expected = usableByPort(snapshot, (address) => virtual.has(address));
				for (const { key, endpoints } of servicePorts) {
					expect(new Set(endpoints.map((endpoint) => endpoint.key))).toEqual(expected.get(key));
				}
			}),
			{ numRuns: 2_000 },
		);
	});
});

describe("createServicePortPlanner() and objects that come anew", () => {
	it("gives the very same ServicePorts for a state that means the same", () => {
		fc.assert(
			fc.property(raws, ({ services, slices }) => {
				const planner = createServicePortPlanner(OPTIONS);
				const before = planner.plan(snapshotOf(services, slices), plainView);
				const after = planner.plan(snapshotOf(services, slices), plainView);
				expect(after).toEqual(before);
				expect(
					after.servicePorts.filter((each, index) => each !== before.servicePorts[index]),
				).toEqual([]);
			}),
			{ numRuns: 1_000 },
		);
	});

	it("gives another object exactly where something changed", () => {
		fc.assert(
			fc.property(raws, raws, fc.boolean(), (first, second, isMove) => {
				const planner = createServicePortPlanner(OPTIONS);
				const start = snapshotOf(first.services, first.slices);
				const before = planner.plan(start, plainView).servicePorts;
				const news = snapshotOf(second.services.slice(0, 1), second.slices.slice(0, 1));
				const next = {
					...start,
					services: new Map([...start.services, ...news.services]),
					endpointSlices: new Map([...start.endpointSlices, ...news.endpointSlices]),
				};
				const state = isMove ? moved(start) : next;
				const old = new Map(before.map((servicePort) => [servicePort.key, servicePort]));
				const kept = new Set(
					planner.plan(state, plainView).servicePorts.filter((each) => old.get(each.key) === each),
				);
				for (const fresh of planServicePorts(state, plainView, OPTIONS).servicePorts) {
					const same = old.get(fresh.key);
					const isEqual = JSON.stringify(same) === JSON.stringify(fresh);
					expect([fresh.key, same !== undefined && kept.has(same)]).toEqual([fresh.key, isEqual]);
				}
			}),
			{ numRuns: 1_000 },
		);
	});
});

/** Every endpoint is on another node now, and nothing else is different. */
function moved(snapshot: Snapshot): Snapshot {
	const endpointSlices = new Map(
		[...snapshot.endpointSlices].map(([key, slice]) => [
			key,
			{ ...slice, endpoints: slice.endpoints.map((each) => ({ ...each, nodeName: "node9" })) },
		]),
	);
	return { ...snapshot, endpointSlices };
}
