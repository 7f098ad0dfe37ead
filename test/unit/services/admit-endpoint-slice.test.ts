import { describe, expect, test as it } from "vitest";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import { rawSlice } from "../../kit/raw-objects.ts";
import { admitted, problemsOf } from "../../kit/snapshots.ts";

describe("admitEndpointSlice()", () => {
	it("keeps what we decide by (classic 9.6.2)", () => {
		const raw = rawSlice({
			endpoints: [
				{
					addresses: ["10.244.1.2", "10.244.1.3"],
					conditions: { ready: false, serving: true, terminating: true },
					nodeName: "node1",
					zone: "z1",
					targetRef: { kind: "Pod", name: "web-1" },
					hints: { forNodes: [{ name: "node1" }], forZones: [{ name: "z1" }, { name: "z2" }] },
				},
			],
		});
		expect(admitted(admitEndpointSlice(raw))).toEqual({
			namespace: "shop",
			name: "cart-abc",
			serviceName: "cart",
			family: "ipv4",
			ports: [{ name: "http", protocol: "tcp", port: 8080 }],
			endpoints: [
				{
					address: "10.244.1.2",
					ready: false,
					serving: true,
					terminating: true,
					nodeName: "node1",
					zone: "z1",
					podName: "web-1",
					forNodes: ["node1"],
					forZones: ["z1", "z2"],
				},
			],
		});
	});

	it("names a hint that is none", () => {
		const of = (hints: unknown) =>
			problemsOf(
				admitEndpointSlice(rawSlice({ endpoints: [{ addresses: ["10.244.1.2"], hints }] })),
			);
		expect(of({ forZones: [{ name: 1 }] })).toEqual([
			"endpoints[0].hints.forZones[0].name: wanted a string, got 1",
		]);
		expect(of({ forNodes: "node1" })).toEqual([
			'endpoints[0].hints.forNodes: wanted a list, got "node1"',
		]);
		expect(of(null)).toEqual([]);
	});

	it.each([
		["absent", {}],
		["null", { conditions: null }],
		["ready null", { conditions: { ready: null } }],
	])("conditions that are %s mean ready (case 19a, case 19b)", (_name, fields) => {
		const raw = rawSlice({ endpoints: [{ addresses: ["10.244.1.2"], ...fields }] });
		const [endpoint] = admitted(admitEndpointSlice(raw)).endpoints;
		expect(endpoint).toMatchObject({ ready: true, serving: true, terminating: false });
	});

	it("reads node and zone out of v1beta1's topology (classic 9.6.2)", () => {
		const topology = { "kubernetes.io/hostname": "node1", "topology.kubernetes.io/zone": "z1" };
		const raw = rawSlice({ endpoints: [{ addresses: ["10.244.1.2"], topology }] });
		expect(admitted(admitEndpointSlice(raw)).endpoints[0]).toMatchObject({
			nodeName: "node1",
			zone: "z1",
		});
	});

	it("ports: null name is the unnamed port, no number is left out, null is none (classic 9.6.1)", () => {
		const ports = [{ name: null, port: 1, protocol: null }, { name: "all" }];
		expect(admitted(admitEndpointSlice(rawSlice({ ports }))).ports).toEqual([
			{ name: "", protocol: "tcp", port: 1 },
		]);
		const raw = { ...rawSlice(), ports: null };
		expect(admitted(admitEndpointSlice(raw)).ports).toEqual([]);
	});

	it("a slice of host names, and one without a Service, are of no use and no error", () => {
		const names = rawSlice({ addressType: "FQDN", endpoints: [{ addresses: ["a.example"] }] });
		expect(admitted(admitEndpointSlice(names)).endpoints).toEqual([]);
		const raw = rawSlice();
		const orphan = { ...raw, metadata: { ...raw.metadata, labels: undefined } };
		expect(admitted(admitEndpointSlice(orphan)).serviceName).toBe("");
	});

	it.each([
		["addressType absent", { ...rawSlice(), addressType: undefined }, /^addressType: wanted IPv4/],
		["addressType unknown", rawSlice({ addressType: "IPX" }), /^addressType: wanted one of/],
		["wrong family", rawSlice({ endpoints: ["fd10::1"] }), /an ipv4 address, got "fd10::1"$/],
		["no address", rawSlice({ endpoints: [{ addresses: [] }] }), /at least one address/],
		["loopback", rawSlice({ endpoints: ["127.0.0.1"] }), /not loopback/],
		["unspecified", rawSlice({ endpoints: ["0.0.0.0"] }), /not unspecified/],
		["link-local", rawSlice({ endpoints: ["169.254.169.254"] }), /not link-local/],
		["multicast", rawSlice({ addressType: "IPv6", endpoints: ["ff02::1"] }), /not multicast/],
		[
			"a port twice",
			rawSlice({ ports: [{ port: 1 }, { port: 2 }] }),
			/^ports\[1\]\.name: wanted a name that no/,
		],
		["port 70000", rawSlice({ ports: [{ port: 70_000 }] }), /^ports\[0\]\.port: .* got 70000$/],
		[
			"ready as text",
			rawSlice({ endpoints: [{ addresses: ["10.244.1.2"], conditions: { ready: "yes" } }] }),
			/^endpoints\[0\]\.conditions\.ready: wanted true or false, got "yes"$/,
		],
		["endpoints no list", { ...rawSlice(), endpoints: "x" }, /^endpoints: wanted a list/],
		[
			"too many",
			rawSlice({ endpoints: Array.from({ length: 1_001 }, () => "10.244.1.2") }),
			/at most 1000 items, got 1001/,
		],
	])("names the field of what the API would have refused: %s", (_name, raw, expected) => {
		expect(problemsOf(admitEndpointSlice(raw)).join("\n")).toMatch(
			new RegExp(expected.source, "m"),
		);
	});
});
