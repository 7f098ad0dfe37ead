import { describe, expect, test as it } from "vitest";
import {
	createServicePortPlanner,
	planServicePorts,
} from "../../../src/services/plan-service-ports.ts";
import { aRange } from "../../kit/ranges.ts";
import { rawService, rawSlice } from "../../kit/raw-objects.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

const plain = { serviceProxyName: undefined };
const PROXY_NAME = "service.kubernetes.io/service-proxy-name";

function endpointsOf(services: unknown[], slices: unknown[]): string[][] {
	const { servicePorts } = planServicePorts(snapshotOf(services, slices), plainView, plain);
	return servicePorts.map(({ endpoints }) => endpoints.map(({ key }) => key));
}

function endpoint(address: string, conditions?: Record<string, unknown>) {
	return { addresses: [address], ...(conditions === undefined ? {} : { conditions }) };
}

describe("planServicePorts()", () => {
	it("gives one ServicePort per port and family, keyed and sorted (classic 9.4.4, 9.4.8)", () => {
		const service = rawService({
			clusterIps: ["10.96.0.10", "fd10:96::a"],
			ports: [
				{ name: "dns", protocol: "UDP", port: 53 },
				{ name: "dns-tcp", protocol: "TCP", port: 53 },
				{ name: "other", protocol: "UDP", port: 54 },
			],
		});
		const { servicePorts } = planServicePorts(snapshotOf([service]), plainView, plain);
		expect(servicePorts.map(({ key }) => key)).toEqual([
			"shop/cart:dns-tcp/tcp/ipv4",
			"shop/cart:dns-tcp/tcp/ipv6",
			"shop/cart:dns/udp/ipv4",
			"shop/cart:dns/udp/ipv6",
			"shop/cart:other/udp/ipv4",
			"shop/cart:other/udp/ipv6",
		]);
		expect(servicePorts[0]).toMatchObject({
			name: "shop/cart:dns-tcp",
			virtualAddresses: [{ kind: "ClusterIP", address: "10.96.0.10" }],
			endpoints: [],
		});
	});

	it("skips headless, ExternalName and Services of another proxy (classic 9.4.2, 9.4.3)", () => {
		const services = [
			rawService({ name: "a", spec: { clusterIP: "None", clusterIPs: ["None"] } }),
			rawService({ name: "b", spec: { type: "ExternalName" } }),
			rawService({ name: "c", labels: { [PROXY_NAME]: "other" } }),
			rawService({ name: "d", labels: { [PROXY_NAME]: "" } }),
		];
		expect(planServicePorts(snapshotOf(services), plainView, plain).servicePorts).toEqual([]);
	});

	it("names the ClusterIPs of the Services that it serves, whatever their ports", () => {
		const services = [
			rawService({ name: "a", clusterIps: ["10.96.0.20", "fd10:96::a"] }),
			rawService({
				name: "b",
				clusterIp: "10.96.0.3",
				ports: [{ name: "s", protocol: "SCTP", port: 1 }],
			}),
			rawService({ name: "c", clusterIp: "10.96.0.4", labels: { [PROXY_NAME]: "other" } }),
			rawService({ name: "d", spec: { clusterIP: "None", clusterIPs: ["None"] } }),
		];
		const snapshot = snapshotOf(services);
		expect(planServicePorts(snapshot, plainView, plain).clusterIps).toEqual({
			owned: ["10.96.0.20", "10.96.0.3", "fd10:96::a"],
			ranges: [],
		});
	});

	it("knows unused ClusterIPs by the ServiceCIDRs, unless other proxies serve Services, too", () => {
		const cidr = { name: "kubernetes", ranges: [aRange("10.96.0.0/12"), aRange("fd10:96::/112")] };
		const snapshot = {
			...snapshotOf([]),
			serviceCidrs: new Map([
				["kubernetes", cidr],
				["more", { name: "more", ranges: [aRange("10.96.0.0/12"), aRange("10.200.0.0/16")] }],
			]),
		};
		expect(planServicePorts(snapshot, plainView, plain).clusterIps.ranges).toEqual([
			"10.200.0.0/16",
			"10.96.0.0/12",
			"fd10:96::/112",
		]);
		const beside = { serviceProxyName: "ours" };
		expect(planServicePorts(snapshot, plainView, beside).clusterIps.ranges).toEqual([]);
	});

	it("keeps what is known of ClusterIPs the very same object while nothing of it changes", () => {
		const planner = createServicePortPlanner(plain);
		const plan = (services: unknown[]) => planner.plan(snapshotOf(services), plainView).clusterIps;
		const before = plan([rawService({ name: "a", clusterIp: "10.96.0.1" })]);
		expect(plan([rawService({ name: "a", clusterIp: "10.96.0.1", labels: { new: "" } })])).toBe(
			before,
		);
		// Without a port that is served, nothing of the rest of the plan changes.
		const sctp = { name: "s", protocol: "SCTP", port: 1 };
		plan([rawService({ name: "a", clusterIp: "10.96.0.1", ports: [sctp] })]);
		const moved = plan([rawService({ name: "a", clusterIp: "10.96.0.2", ports: [sctp] })]);
		expect(moved.owned).toEqual(["10.96.0.2"]);
	});

	it("with a proxy name serves exactly the Services that carry it", () => {
		const services = [
			rawService({ name: "a", clusterIp: "10.96.0.1" }),
			rawService({ name: "b", clusterIp: "10.96.0.2", labels: { [PROXY_NAME]: "lens" } }),
			rawService({ name: "c", clusterIp: "10.96.0.3", labels: { [PROXY_NAME]: "other" } }),
		];
		const { servicePorts } = planServicePorts(snapshotOf(services), plainView, {
			serviceProxyName: "lens",
		});
		expect(servicePorts.map(({ serviceName }) => serviceName)).toEqual(["b"]);
	});

	it("joins slices, each address and port once, by number (classic 9.5.5, 9.6.1)", () => {
		const slices = [
			rawSlice({ name: "s1", endpoints: ["10.244.1.10", "10.244.1.9"] }),
			rawSlice({ name: "s2", endpoints: ["10.244.1.9", "10.244.2.1"] }),
			rawSlice({ name: "s3", ports: [{ name: "http", port: 9090 }], endpoints: ["10.244.1.9"] }),
			rawSlice({ name: "other", serviceName: "pay", endpoints: ["10.244.9.9"] }),
			rawSlice({ name: "elsewhere", namespace: "market", endpoints: ["10.244.9.8"] }),
			rawSlice({ name: "v6", addressType: "IPv6", endpoints: ["fd10::9"] }),
		];
		expect(endpointsOf([rawService()], slices)).toEqual([
			["10.244.1.9:8080", "10.244.1.9:9090", "10.244.1.10:8080", "10.244.2.1:8080"],
		]);
	});

	it("matches ports by name and protocol", () => {
		const service = rawService({
			ports: [
				{ name: "a", protocol: "TCP", port: 1 },
				{ name: "b", protocol: "UDP", port: 1 },
			],
		});
		const ports = [
			{ name: "a", protocol: "UDP", port: 11 },
			{ name: "a", protocol: "TCP", port: 12 },
			{ name: "b", protocol: "UDP", port: 13 },
		];
		expect(endpointsOf([service], [rawSlice({ ports })])).toEqual([
			["10.244.1.2:12"],
			["10.244.1.2:13"],
		]);
	});

	it("uses what is ready, absent conditions included, and else what still serves (classic 9.6.1)", () => {
		const unknown = endpoint("10.244.1.1");
		const nothing = endpoint("10.244.1.2", { ready: null });
		const down = endpoint("10.244.1.3", { ready: false, serving: false });
		const leaving = endpoint("10.244.1.4", { ready: false, serving: true, terminating: true });
		const gone = endpoint("10.244.1.5", { ready: false, serving: false, terminating: true });
		const of = (...endpoints: unknown[]) => endpointsOf([rawService()], [rawSlice({ endpoints })]);
		expect(of(unknown)).toEqual([["10.244.1.1:8080"]]);
		expect(of(nothing)).toEqual([["10.244.1.2:8080"]]);
		expect(of(down)).toEqual([[]]);
		expect(of(leaving)).toEqual([["10.244.1.4:8080"]]);
		expect(of(gone)).toEqual([[]]);
		expect(of(leaving, unknown)).toEqual([["10.244.1.1:8080"]]);
		expect(of(down, leaving, gone)).toEqual([["10.244.1.4:8080"]]);
	});

	it("an endpoint that is ready in one slice is ready (classic 9.6.1)", () => {
		const slices = [
			rawSlice({ name: "s1", endpoints: [endpoint("10.244.1.2", { ready: false })] }),
			rawSlice({ name: "s2", endpoints: ["10.244.1.2"] }),
		];
		expect(endpointsOf([rawService()], slices)).toEqual([["10.244.1.2:8080"]]);
		expect(endpointsOf([rawService()], slices.toReversed())).toEqual([["10.244.1.2:8080"]]);
	});

	it("of an endpoint in two slices, believes the one that calls it ready (classic 9.5.5)", () => {
		const stale = { addresses: ["10.244.1.2"], conditions: { ready: false }, nodeName: "old" };
		const slices = [
			rawSlice({ name: "s1", endpoints: [stale] }),
			rawSlice({ name: "s2", endpoints: [{ addresses: ["10.244.1.2"], nodeName: "new" }] }),
		];
		const { servicePorts } = planServicePorts(snapshotOf([rawService()], slices), plainView, plain);
		expect(servicePorts[0]?.endpoints[0]?.nodeName).toBe("new");
	});

	it("names SCTP ports and serves the others", () => {
		const ports = [
			{ name: "sig", protocol: "SCTP", port: 36_412 },
			{ name: "web", protocol: "TCP", port: 80 },
		];
		const plan = planServicePorts(snapshotOf([rawService({ ports })]), plainView, plain);
		expect(plan.servicePorts.map(({ name }) => name)).toEqual(["shop/cart:web"]);
		expect(plan.unserved).toEqual([
			{ name: "shop/cart:sig", reason: "sctp", detail: "port 36412" },
		]);
	});

	it("gives an address that two Services claim to one of them, and says so", () => {
		const services = [rawService({ name: "b" }), rawService({ name: "a" })];
		const plan = planServicePorts(snapshotOf(services), plainView, plain);
		expect(plan.servicePorts.map(({ name }) => name)).toEqual(["shop/a:http"]);
		expect(plan.unserved).toEqual([
			{
				name: "shop/b:http",
				reason: "conflict",
				detail: "10.96.0.10:80/tcp belongs to shop/a:http",
			},
		]);
	});

	it("never uses a Service's own address as an endpoint", () => {
		const slices = [rawSlice({ endpoints: ["10.244.1.2", "10.96.0.10"] })];
		const plan = planServicePorts(snapshotOf([rawService()], slices), plainView, plain);
		expect(plan.servicePorts[0]?.endpoints.map(({ key }) => key)).toEqual(["10.244.1.2:8080"]);
		expect(plan.unserved[0]?.reason).toBe("endpoint-is-virtual-address");
	});
});

describe("createServicePortPlanner()", () => {
	it("gives the same ServicePort object again where nothing changed", () => {
		const planner = createServicePortPlanner(plain);
		const services = [rawService({ name: "a" }), rawService({ name: "b", clusterIp: "10.96.0.2" })];
		const before = snapshotOf(services, [rawSlice({ serviceName: "a" })]);
		const [a, b] = planner.plan(before, plainView).servicePorts;
		const changed = snapshotOf([], [rawSlice({ serviceName: "b", name: "b-1" })]);
		const after = {
			...before,
			endpointSlices: new Map([...before.endpointSlices, ...changed.endpointSlices]),
		};
		const [a2, b2] = planner.plan(after, plainView).servicePorts;
		expect(a2).toBe(a);
		expect(b2).not.toBe(b);
		expect(b2?.endpoints).toHaveLength(1);
	});

	it("gives the same object also where its Service came anew and means the same", () => {
		const planner = createServicePortPlanner(plain);
		const raw = () =>
			snapshotOf([rawService()], [rawSlice({ endpoints: ["10.244.1.2", "10.96.0.10"] })]);
		const before = planner.plan(raw(), plainView);
		const after = planner.plan(raw(), plainView);
		expect(after.servicePorts[0]).toBe(before.servicePorts[0]);
		expect(after.unserved).toEqual(before.unserved);
	});

	it("is the very same plan when objects change in nothing that counts (case 30c)", () => {
		const planner = createServicePortPlanner(plain);
		const before = planner.plan(snapshotOf([rawService()], [rawSlice()]), plainView);
		const labelled = rawService({ labels: { team: "checkout" } });
		expect(planner.plan(snapshotOf([labelled], [rawSlice()]), plainView)).toBe(before);
		const moved = planner.plan(
			snapshotOf([labelled], [rawSlice({ endpoints: ["10.244.1.9"] })]),
			plainView,
		);
		expect(moved.servicePorts[0]?.endpoints[0]?.address).toBe("10.244.1.9");
	});

	it("gives the same plan again where nothing changed, and forgets what went", () => {
		const planner = createServicePortPlanner(plain);
		const snapshot = snapshotOf([rawService()], [rawSlice()]);
		expect(planner.plan(snapshot, plainView)).toBe(planner.plan(snapshot, plainView));
		expect(planner.plan(snapshotOf([]), plainView).servicePorts).toEqual([]);
	});

	it.each([
		["the port", rawService({ ports: [{ name: "http", port: 81 }] }), rawSlice()],
		["the address", rawService({ clusterIp: "10.96.0.11" }), rawSlice()],
		["the affinity", rawService({ spec: { sessionAffinity: "ClientIP" } }), rawSlice()],
		["an endpoint", rawService(), rawSlice({ endpoints: ["10.244.1.3"] })],
		[
			"where an endpoint is",
			rawService(),
			rawSlice({ endpoints: [{ addresses: ["10.244.1.2"], nodeName: "node2" }] }),
		],
	])("gives another object when %s changed", (_name, service, slice) => {
		const planner = createServicePortPlanner(plain);
		const [before] = planner.plan(snapshotOf([rawService()], [rawSlice()]), plainView).servicePorts;
		const snapshot = snapshotOf([service], [slice]);
		const [after] = planner.plan(snapshot, plainView).servicePorts;
		expect(after).not.toBe(before);
		expect(after).toEqual(planServicePorts(snapshot, plainView, plain).servicePorts[0]);
	});
});
