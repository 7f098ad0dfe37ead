import { describe, expect, test as it } from "vitest";
import type { NodeView } from "../../../src/services/node-view.ts";
import {
	createServicePortPlanner,
	type ServicePortPlan,
} from "../../../src/services/plan-service-ports.ts";
import { rawService, rawSlice } from "../../kit/raw-objects.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { aView } from "../../kit/views.ts";

const OLD = "2026-01-01T00:00:00Z";
const YOUNG = "2026-06-01T00:00:00Z";

/** "a" is the Service at 10.96.0.1, "b" that at 10.96.0.2, and so on. */
function service(name: string, spec: object = {}, createdAt?: string, nodePort?: number) {
	return rawService({
		name,
		clusterIp: `10.96.0.${name.charCodeAt(0) - 96}`,
		...(createdAt === undefined ? {} : { createdAt }),
		ports: [{ name: "http", protocol: "TCP", port: 80, nodePort }],
		spec: { type: "LoadBalancer", ...spec },
	});
}

const balancer = (raw: object, ...ips: string[]) => ({
	...raw,
	status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } },
});

function planner() {
	const inner = createServicePortPlanner({ serviceProxyName: undefined });
	return (services: unknown[], view: NodeView = aView()): ServicePortPlan =>
		inner.plan(snapshotOf(services), view);
}

/** Addresses and node ports by Service: "a: 10.96.0.1 :30080". */
function served({ servicePorts }: ServicePortPlan): string[] {
	return servicePorts.map(({ serviceName, virtualAddresses, nodePort }) =>
		[
			`${serviceName}:`,
			...virtualAddresses.map(({ address }) => address),
			...(nodePort === undefined ? [] : [`:${nodePort.port}`]),
		].join(" "),
	);
}

function notes({ unserved }: ServicePortPlan): string[] {
	return unserved.map(({ name, reason, detail }) => `${name} ${reason}: ${detail}`);
}

const EXTERNAL = { externalIPs: ["203.0.113.7"] };

describe("an address that two Services claim", () => {
	it("is the older one's, whatever their names and the order; the other keeps the rest (case 27d, classic 9.1.28)", () => {
		const older = service("b", EXTERNAL, OLD);
		const younger = service("a", EXTERNAL, YOUNG);
		for (const services of [
			[older, younger],
			[younger, older],
		]) {
			const plan = planner()(services);
			expect(served(plan)).toEqual(["a: 10.96.0.1", "b: 10.96.0.2 203.0.113.7"]);
			expect(notes(plan)).toEqual([
				"shop/a:http conflict: 203.0.113.7:80/tcp belongs to shop/b:http",
			]);
		}
	});

	it("goes to the other one when the older has gone", () => {
		const plan = planner();
		const younger = service("a", EXTERNAL, YOUNG);
		plan([service("b", EXTERNAL, OLD), younger]);
		expect(served(plan([younger]))).toEqual(["a: 10.96.0.1 203.0.113.7"]);
		expect(notes(plan([younger]))).toEqual([]);
	});

	it("stays with the one that has it, where nobody tells their ages", () => {
		const plan = planner();
		const known = service("b", EXTERNAL);
		plan([known]);
		expect(served(plan([service("a", EXTERNAL), known]))).toEqual([
			"a: 10.96.0.1",
			"b: 10.96.0.2 203.0.113.7",
		]);
		// From nothing it is the first by name: as good as any, and always the same.
		expect(served(planner()([known, service("a", EXTERNAL)]))[0]).toBe("a: 10.96.0.1 203.0.113.7");
	});

	it("is a ClusterIP's rather than an external IP's of the same age, on any port", () => {
		const thief = service("b", { externalIPs: ["10.96.0.1"] });
		expect(served(planner()([service("a"), thief]))).toEqual(["a: 10.96.0.1", "b: 10.96.0.2"]);
		const other = rawService({ name: "c", clusterIp: "10.96.0.3", ports: [{ port: 443 }] });
		const plan = planner()([other, service("b", { externalIPs: ["10.96.0.3"] })]);
		expect(notes(plan)).toEqual([
			"shop/b:http address-refused: ExternalIP 10.96.0.3 is the ClusterIP of shop/c",
		]);
	});

	it("is a younger ClusterIP's rather than an older external IP's: else one could wait for it (case 27c)", () => {
		const plan = planner();
		const thief = service("b", { externalIPs: ["10.96.0.1"] }, OLD);
		expect(served(plan([thief]))).toEqual(["b: 10.96.0.2 10.96.0.1"]);
		const after = plan([service("a", {}, YOUNG), thief]);
		expect(served(after)).toEqual(["a: 10.96.0.1", "b: 10.96.0.2"]);
		expect(notes(after)).toEqual([
			"shop/b:http address-refused: ExternalIP 10.96.0.1 is the ClusterIP of shop/a",
		]);
	});

	it("is no claim where nobody may have it", () => {
		const view = aView({ allowedExternalIps: ["198.51.100.0/24"] });
		const plan = planner()(
			[service("b", EXTERNAL, OLD), balancer(service("a", {}, YOUNG), "203.0.113.7")],
			view,
		);
		expect(served(plan)[0]).toBe("a: 10.96.0.1 203.0.113.7");
	});

	it("counts once where a Service has it in two ways, with the ranges of the load balancer", () => {
		const raw = service("a", {
			externalIPs: ["203.0.113.7", "10.96.0.1"],
			loadBalancerSourceRanges: ["198.51.100.0/24"],
		});
		const plan = planner()([balancer(raw, "203.0.113.7", "10.96.0.1")]);
		expect(plan.servicePorts[0]?.virtualAddresses).toMatchObject([
			{ kind: "ClusterIP", address: "10.96.0.1", sourceRanges: [] },
			{ kind: "LoadBalancerIP", address: "203.0.113.7", sourceRanges: ["198.51.100.0/24"] },
		]);
		expect(notes(plan)).toEqual([]);
	});

	it("also as a node port: one per protocol", () => {
		const tcp = service("b", {}, OLD, 30_080);
		const udp = rawService({
			name: "c",
			clusterIp: "10.96.0.3",
			ports: [{ name: "http", protocol: "UDP", port: 80, nodePort: 30_080 }],
		});
		const plan = planner()([service("a", {}, YOUNG, 30_080), tcp, udp]);
		expect(served(plan)).toEqual(["a: 10.96.0.1", "b: 10.96.0.2 :30080", "c: 10.96.0.3 :30080"]);
		expect(notes(plan)).toEqual([
			"shop/a:http conflict: ipv4 node port 30080/tcp belongs to shop/b:http",
		]);
	});
});

describe("an address that nobody gets", () => {
	it.each([
		["127.0.0.1", "is loopback"],
		["0.0.0.0", "is unspecified"],
		["169.254.169.254", "is link-local"],
		["224.0.0.1", "is multicast"],
		["255.255.255.255", "is broadcast"],
		["10.1.0.255", "is a broadcast address of this node"],
		["10.1.0.1", "is an address of this node"],
	])("%s as an external IP: it %s (case 27b, case 27c)", (address, why) => {
		const view = aView({ broadcastAddresses: ["10.1.0.255"] });
		const plan = planner()([service("a", { externalIPs: [address] })], view);
		expect(served(plan)).toEqual(["a: 10.96.0.1"]);
		expect(notes(plan)).toEqual([`shop/a:http address-refused: ExternalIP ${address} ${why}`]);
	});

	it("an API server's as an external IP, on any port, while it is an endpoint of the API's Service (case 27c)", () => {
		const api = rawService({
			namespace: "default",
			name: "kubernetes",
			clusterIp: "10.96.0.9",
			ports: [{ name: "https", protocol: "TCP", port: 443, targetPort: 6443 }],
		});
		const slice = rawSlice({
			namespace: "default",
			serviceName: "kubernetes",
			ports: [{ name: "https", protocol: "TCP", port: 6443 }],
			endpoints: ["192.0.2.1"],
		});
		const thief = service("a", { externalIPs: ["192.0.2.1"] });
		const inner = createServicePortPlanner({ serviceProxyName: undefined });
		const plan = inner.plan(snapshotOf([api, thief], [slice]), aView());
		expect(served(plan)).toEqual(["kubernetes: 10.96.0.9", "a: 10.96.0.1"]);
		expect(notes(plan)).toEqual([
			"shop/a:http address-refused: ExternalIP 192.0.2.1 is an API server's address",
		]);
		const later = inner.plan(snapshotOf([api, thief], []), aView());
		expect(served(later)).toContain("a: 10.96.0.1 192.0.2.1");
	});

	it("an external IP outside of the list, and any where the list is empty (case 27a)", () => {
		const raw = service("a", { externalIPs: ["203.0.113.7", "198.51.100.7"] });
		const some = planner()([raw], aView({ allowedExternalIps: ["203.0.113.0/24"] }));
		expect(served(some)).toEqual(["a: 10.96.0.1 203.0.113.7"]);
		expect(notes(some)).toEqual([
			"shop/a:http address-refused: ExternalIP 198.51.100.7 is not in --allow-external-ips",
		]);
		expect(served(planner()([raw], aView({ allowedExternalIps: [] })))).toEqual(["a: 10.96.0.1"]);
	});

	it("a load balancer's address that is the node's own is served: some clouds make it so", () => {
		const plan = planner()([balancer(service("a"), "10.1.0.1")]);
		expect(served(plan)).toEqual(["a: 10.96.0.1 10.1.0.1"]);
	});
});

describe("a port of the node that a process has", () => {
	const taken = (): NodeView =>
		aView({ isPortTaken: ({ port }) => port === 30_080 || port === 80 });

	it("stays with the process, on the node's own addresses alone, until it is free (classic 9.1.28)", () => {
		const plan = planner();
		const services = [balancer(service("a", {}, OLD, 30_080), "10.1.0.1", "198.51.100.7")];
		const before = plan(services, taken());
		expect(served(before)).toEqual(["a: 10.96.0.1 198.51.100.7"]);
		expect(notes(before)).toEqual([
			"shop/a:http port-taken: 10.1.0.1:80/tcp is in use by a process of this node",
			"shop/a:http port-taken: ipv4 node port 30080/tcp is in use by a process of this node",
		]);
		expect(served(plan(services, aView()))).toEqual(["a: 10.96.0.1 10.1.0.1 198.51.100.7 :30080"]);
	});

	it("is not given up for a process that came later", () => {
		const plan = planner();
		const services = [service("a", {}, OLD, 30_080)];
		plan(services, aView());
		expect(served(plan(services, taken()))).toEqual(["a: 10.96.0.1 :30080"]);
	});
});

describe("an endpoint that rules of ours capture", () => {
	it("is not used: a Service's address, a node port, a load balancer's port of the node", () => {
		const slice = (...addresses: string[]) => ({
			apiVersion: "discovery.k8s.io/v1",
			kind: "EndpointSlice",
			metadata: {
				namespace: "shop",
				name: "a-1",
				labels: { "kubernetes.io/service-name": "a" },
			},
			addressType: "IPv4",
			ports: [{ name: "http", protocol: "TCP", port: 30_080 }],
			endpoints: addresses.map((address) => ({ addresses: [address] })),
		});
		const inner = createServicePortPlanner({ serviceProxyName: undefined });
		const services = [service("a", {}, OLD, 30_080), balancer(service("b"), "10.1.0.1")];
		const addresses = ["10.96.0.2", "10.1.0.1", "10.2.0.9"];
		const plan = inner.plan(snapshotOf(services, [slice(...addresses)]), aView());
		expect(plan.servicePorts[0]?.endpoints.map(({ key }) => key)).toEqual(["10.2.0.9:30080"]);
		// Without the node port, that port of the node is the host's own.
		const without = [service("a", {}, OLD), balancer(service("b"), "10.1.0.1")];
		const other = inner.plan(snapshotOf(without, [slice(...addresses)]), aView());
		expect(other.servicePorts[0]?.endpoints.map(({ key }) => key)).toEqual([
			"10.1.0.1:30080",
			"10.2.0.9:30080",
		]);
	});
});
