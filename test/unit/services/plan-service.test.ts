import { describe, expect, test as it } from "vitest";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import type { Service } from "../../../src/services/objects.ts";
import { planService } from "../../../src/services/plan-service.ts";
import { toPort } from "../../../src/services/port.ts";
import type { ServicePort } from "../../../src/services/service-port.ts";
import { anAddress } from "../../kit/bindings.ts";
import { aRange } from "../../kit/ranges.ts";
import { rawSlice } from "../../kit/raw-objects.ts";
import { aService } from "../../kit/services.ts";
import { admitted } from "../../kit/snapshots.ts";

const HERE = { nodeName: "node1", zone: undefined };

/** "10.244.0.N" and the node that it is on, of port 8080. */
function aSlice(endpoints: readonly (readonly [number: number, nodeName?: string])[]) {
	const raw = endpoints.map(([number, nodeName]) => ({
		addresses: [`10.244.0.${number}`],
		nodeName,
	}));
	return admitted(admitEndpointSlice(rawSlice({ endpoints: raw })));
}

/** A Service with an address of each kind and a node port. */
function everyKind(fields: Partial<Service> = {}): Service {
	return aService({
		externalIps: [anAddress("203.0.113.7")],
		loadBalancerIps: [anAddress("198.51.100.7")],
		ports: [{ name: "http", protocol: "tcp", port: toPort(80), nodePort: toPort(30_080) }],
		...fields,
	});
}

/** By pool: who comes by which kind of address and by the node port, and which endpoints there are. */
function poolsOf(ports: readonly ServicePort[]) {
	return Object.fromEntries(
		ports.map(({ pool, virtualAddresses, nodePort, endpoints, whenEmpty }) => [
			pool,
			{
				...Object.fromEntries(virtualAddresses.map(({ kind, clients }) => [kind, clients])),
				...(nodePort === undefined ? {} : { nodePort: nodePort.clients }),
				endpoints: endpoints.map(({ address }) => Number(address.split(".").at(-1))),
				whenEmpty,
			},
		]),
	);
}

const EXTERNAL = (clients: string) => ({
	ExternalIP: clients,
	LoadBalancerIP: clients,
	nodePort: clients,
});

describe("planService() and the two traffic policies", () => {
	const CLUSTER_POOL = { endpoints: [1, 2], whenEmpty: "reject" };
	const LOCAL_POOL = { endpoints: [1], whenEmpty: "drop" };

	interface Wanted {
		readonly cluster: object;
		readonly local?: object;
	}
	type Case = readonly ["Cluster" | "Local", "Cluster" | "Local", Wanted];
	const CASES: readonly Case[] = [
		["Cluster", "Cluster", { cluster: { ClusterIP: "all", ...EXTERNAL("all") } }],
		[
			"Cluster",
			"Local",
			{ cluster: { ClusterIP: "all", ...EXTERNAL("inside") }, local: EXTERNAL("outside") },
		],
		["Local", "Cluster", { cluster: EXTERNAL("all"), local: { ClusterIP: "all" } }],
		[
			"Local",
			"Local",
			{ cluster: EXTERNAL("inside"), local: { ClusterIP: "all", ...EXTERNAL("outside") } },
		],
	];
	it.each(CASES)("part the clients: internal %s, external %s", (internal, external, wanted) => {
		const service = everyKind({
			internalTrafficPolicy: internal,
			externalTrafficPolicy: external,
		});
		const slices = [
			aSlice([
				[1, "node1"],
				[2, "node2"],
			]),
		];
		const { cluster, local } = wanted;
		expect(poolsOf(planService(service, slices, HERE).ports)).toEqual({
			cluster: { ...cluster, ...CLUSTER_POOL },
			...(local === undefined ? {} : { local: { ...local, ...LOCAL_POOL } }),
		});
	});

	it("a Service with a ClusterIP alone has one pool, whichever its policies", () => {
		for (const policy of ["Cluster", "Local"] as const) {
			const service = aService({
				internalTrafficPolicy: policy,
				externalTrafficPolicy: "Cluster",
			});
			const { ports } = planService(service, [aSlice([[1, "node1"]])], HERE);
			expect(ports.map(({ pool, key }) => [pool, key])).toEqual([
				policy === "Local"
					? ["local", "shop/cart:http/tcp/ipv4/local"]
					: ["cluster", "shop/cart:http/tcp/ipv4"],
			]);
		}
	});

	it.each([
		["node2", { cluster: [1, "reject"], local: [0, "drop"] }],
		["node1", { cluster: [1, "reject"], local: [1, "drop"] }],
		[undefined, { cluster: [0, "reject"], local: [0, "reject"] }],
	] as const)(
		"clients of an empty pool are dropped only where some node has an endpoint: %s",
		(nodeName, wanted) => {
			const service = everyKind({ externalTrafficPolicy: "Local" });
			const slices = nodeName === undefined ? [] : [aSlice([[1, nodeName]])];
			const { ports } = planService(service, slices, HERE);
			const found = ports.map((port) => [port.pool, [port.endpoints.length, port.whenEmpty]]);
			expect(Object.fromEntries(found)).toEqual(wanted);
		},
	);

	it("both pools have the same session affinity, and source ranges of the load balancer alone", () => {
		const service = everyKind({
			externalTrafficPolicy: "Local",
			sessionAffinity: { type: "ClientIP", timeoutMs: 5_000 },
			sourceRanges: [aRange("10.1.0.0/24"), aRange("fd10::/64")],
		});
		const { ports } = planService(service, [], HERE);
		expect(ports).toHaveLength(2);
		for (const { sessionAffinity, virtualAddresses } of ports) {
			expect(sessionAffinity).toEqual({ type: "ClientIP", timeoutMs: 5_000 });
			const ranges = virtualAddresses.filter(({ sourceRanges }) => sourceRanges.length > 0);
			expect(ranges).toMatchObject([{ kind: "LoadBalancerIP", sourceRanges: ["10.1.0.0/24"] }]);
		}
	});
});

describe("planService() and addresses", () => {
	it("counts an address that is there in several ways once, in the one that restricts most", () => {
		const address = anAddress("198.51.100.7");
		const service = everyKind({
			externalIps: [address, anAddress("10.96.0.10")],
			loadBalancerIps: [address, anAddress("10.96.0.10")],
		});
		const [port] = planService(service, [], HERE).ports;
		expect(port?.virtualAddresses.map(({ kind, address: ip }) => `${kind} ${ip}`)).toEqual([
			"ClusterIP 10.96.0.10",
			"LoadBalancerIP 198.51.100.7",
		]);
	});

	it("gives each family its own addresses, ranges and endpoints, and both the node port (classic 9.4.8, 9.4.9)", () => {
		const service = everyKind({
			clusterIps: [anAddress("10.96.0.10"), anAddress("fd96::10")],
			externalIps: [anAddress("fd20::7")],
			loadBalancerIps: [anAddress("198.51.100.7"), anAddress("fd30::7")],
			sourceRanges: [aRange("10.1.0.0/24")],
		});
		const six = rawSlice({ name: "six", addressType: "IPv6", endpoints: ["fd10:2::2"] });
		const slices = [aSlice([[1]]), admitted(admitEndpointSlice(six))];
		const found = planService(service, slices, HERE).ports.map((port) => ({
			family: port.family,
			addresses: port.virtualAddresses.map(({ address, sourceRanges }) =>
				[address, ...sourceRanges].join(" from "),
			),
			nodePort: port.nodePort?.port,
			endpoints: port.endpoints.map(({ key }) => key),
		}));
		expect(found).toEqual([
			{
				family: "ipv4",
				addresses: ["10.96.0.10", "198.51.100.7 from 10.1.0.0/24"],
				nodePort: 30_080,
				endpoints: ["10.244.0.1:8080"],
			},
			{
				family: "ipv6",
				// Ranges of one family say nothing about the other.
				addresses: ["fd96::10", "fd20::7", "fd30::7"],
				nodePort: 30_080,
				endpoints: ["[fd10:2::2]:8080"],
			},
		]);
	});

	it("serves a load balancer's address of a port without a node port", () => {
		const service = aService({ loadBalancerIps: [anAddress("198.51.100.7")] });
		const [port] = planService(service, [], HERE).ports;
		expect(port?.nodePort).toBeUndefined();
		expect(port?.virtualAddresses.map(({ kind }) => kind)).toEqual(["ClusterIP", "LoadBalancerIP"]);
	});

	it("leaves out addresses of a family that the Service has no ClusterIP of", () => {
		const service = everyKind({ externalIps: [anAddress("fd20::7")] });
		const { ports } = planService(service, [], HERE);
		expect(ports.map(({ family }) => family)).toEqual(["ipv4"]);
		expect(JSON.stringify(ports)).not.toContain("fd20::7");
	});

	it("names SCTP ports and plans the others", () => {
		const service = aService({
			ports: [
				{ name: "sig", protocol: "sctp", port: toPort(36_412), nodePort: undefined },
				{ name: "", protocol: "udp", port: toPort(53), nodePort: undefined },
			],
		});
		const plan = planService(service, [], HERE);
		expect(plan.sctp).toEqual([{ name: "shop/cart:sig", port: 36_412 }]);
		expect(plan.ports.map(({ key }) => key)).toEqual(["shop/cart:/udp/ipv4"]);
	});
});

describe("planService() and healthCheckNodePort", () => {
	const checked = (fields: Partial<Service> = {}) =>
		everyKind({
			externalTrafficPolicy: "Local",
			healthCheckNodePort: toPort(31_797),
			...fields,
		});
	const countOf = (service: Service, slices: Parameters<typeof planService>[1]) =>
		planService(service, slices, HERE).healthCheck?.localEndpoints;

	it("is there only where the Service has one (classic 9.4.7, 9.7.4)", () => {
		expect(planService(everyKind(), [], HERE).healthCheck).toBeUndefined();
		expect(planService(checked(), [], HERE).healthCheck).toEqual({
			namespace: "shop",
			serviceName: "cart",
			port: 31_797,
			localEndpoints: 0,
		});
	});

	it("counts ready endpoints of this node by address, whichever port they serve (classic 9.5.1)", () => {
		const service = checked({
			ports: [
				{ name: "http", protocol: "tcp", port: toPort(80), nodePort: undefined },
				{ name: "dns", protocol: "udp", port: toPort(53), nodePort: undefined },
			],
		});
		const raw = rawSlice({
			ports: [
				{ name: "http", protocol: "TCP", port: 8080 },
				{ name: "dns", protocol: "UDP", port: 5353 },
			],
			endpoints: [
				{ addresses: ["10.244.0.1"], nodeName: "node1" },
				{ addresses: ["10.244.0.2"], nodeName: "node1" },
				{ addresses: ["10.244.0.3"], nodeName: "node2" },
			],
		});
		const other = rawSlice({
			name: "other",
			ports: [{ name: "http", protocol: "TCP", port: 9090 }],
			endpoints: [{ addresses: ["10.244.0.1"], nodeName: "node1" }],
		});
		const slices = [admitted(admitEndpointSlice(raw)), admitted(admitEndpointSlice(other))];
		expect(countOf(service, slices)).toBe(2);
	});

	it("does not count those that terminate, though they are still used", () => {
		const leaving = rawSlice({
			endpoints: [
				{
					addresses: ["10.244.0.1"],
					nodeName: "node1",
					conditions: { ready: false, serving: true, terminating: true },
				},
			],
		});
		const slices = [admitted(admitEndpointSlice(leaving))];
		const { ports, healthCheck } = planService(checked(), slices, HERE);
		expect(healthCheck?.localEndpoints).toBe(0);
		expect(ports.map(({ endpoints }) => endpoints.length)).toEqual([1, 1]);
	});

	it("counts one of two families once, and the family that has more", () => {
		const service = checked({ clusterIps: [anAddress("10.96.0.10"), anAddress("fd96::10")] });
		const six = rawSlice({
			name: "six",
			addressType: "IPv6",
			endpoints: [
				{ addresses: ["fd10:2::1"], nodeName: "node1" },
				{ addresses: ["fd10:2::2"], nodeName: "node1" },
			],
		});
		const slices = [aSlice([[1, "node1"]]), admitted(admitEndpointSlice(six))];
		expect(countOf(service, slices)).toBe(2);
	});
});
