import { describe, expect, test as it } from "vitest";
import { admitEndpoints } from "../../../src/services/admit-endpoints.ts";
import { admitNode } from "../../../src/services/admit-node.ts";
import { admitted, problemsOf } from "../../kit/snapshots.ts";

describe("admitEndpoints()", () => {
	const metadata = { namespace: "shop", name: "cart" };

	it("makes one slice per subset and family, not-ready addresses marked (classic 9.7.1)", () => {
		const slices = admitted(
			admitEndpoints({
				metadata,
				subsets: [
					{
						addresses: [{ ip: "10.244.1.2", nodeName: "node1" }, { ip: "fd10::2" }],
						notReadyAddresses: [{ ip: "10.244.1.3" }],
						ports: [{ name: "http", port: 8080, protocol: "TCP" }],
					},
					{ addresses: null, ports: [{ port: 1 }] },
				],
			}),
		);
		expect(slices.map(({ name, family }) => `${name} ${family}`)).toEqual([
			"cart-1-ipv4 ipv4",
			"cart-1-ipv6 ipv6",
		]);
		expect(slices[0]?.serviceName).toBe("cart");
		expect(slices[0]?.endpoints.map(({ address, ready }) => [address, ready])).toEqual([
			["10.244.1.2", true],
			["10.244.1.3", false],
		]);
	});

	it("without subsets gives none, and bad fields are named", () => {
		expect(admitted(admitEndpoints({ metadata }))).toEqual([]);
		expect(
			problemsOf(
				admitEndpoints({ metadata, subsets: [{ addresses: [{ ip: "x" }], ports: [{ port: 0 }] }] }),
			),
		).toEqual([
			"subsets[0].ports[0].port: wanted an integer in 1..65535, got 0",
			'subsets[0].addresses[0].ip: wanted an IP address, got "x"',
		]);
	});
});

describe("admitEndpoints() and many addresses", () => {
	it("counts them over all subsets, as one list may stand in each", () => {
		const addresses = Array.from({ length: 1_000 }, () => ({ ip: "10.244.1.2" }));
		const endpoints = (subsets: number) =>
			admitEndpoints({
				metadata: { namespace: "shop", name: "cart" },
				subsets: Array.from({ length: subsets }, () => ({ addresses, ports: [] })),
			});
		expect(problemsOf(endpoints(10))).toEqual([]);
		expect(problemsOf(endpoints(11))).toEqual([
			"subsets[10]: wanted at most 10000 addresses in all, got more",
		]);
	});
});

describe("admitEndpoints() and many ports", () => {
	it("refuses one name twice in a subset, and takes one name with two protocols", () => {
		const metadata = { namespace: "shop", name: "cart" };
		const of = (protocol: string) =>
			admitEndpoints({
				metadata,
				subsets: [
					{
						addresses: [{ ip: "10.244.1.2" }],
						ports: [
							{ name: "a", port: 1 },
							{ name: "a", port: 2, protocol },
						],
					},
				],
			});
		expect(problemsOf(of("TCP"))).toEqual([
			'subsets[0].ports[1].name: wanted a name that no other port has, got "a"',
		]);
		expect(admitted(of("UDP"))[0]?.ports).toHaveLength(2);
	});
});

describe("admitNode()", () => {
	it("puts internal addresses first and reads the zone (classic 9.7.5)", () => {
		const node = admitted(
			admitNode({
				metadata: { name: "node1", labels: { "topology.kubernetes.io/zone": "z1" } },
				spec: { podCIDR: "10.244.3.0/24", podCIDRs: ["10.244.3.0/24", "fd00:3::/64", "?"] },
				status: {
					addresses: [
						{ type: "Hostname", address: "node1" },
						{ type: "ExternalIP", address: "203.0.113.9" },
						{ type: "InternalIP", address: "192.168.0.9" },
						{ type: "InternalIP", address: "not an address" },
					],
				},
			}),
		);
		expect(node).toEqual({
			name: "node1",
			zone: "z1",
			addresses: ["192.168.0.9", "203.0.113.9"],
			podRanges: ["10.244.3.0/24", "fd00:3::/64"],
		});
	});

	it("refuses what has no name", () => {
		expect(problemsOf(admitNode({}))).not.toEqual([]);
		expect(problemsOf(admitNode(null))).not.toEqual([]);
	});
});
