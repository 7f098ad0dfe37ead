import { describe, expect, test as it } from "vitest";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import {
	localReadyAddresses,
	type NodePlace,
	usableEndpoints,
} from "../../../src/services/usable-endpoints.ts";
import { rawSlice } from "../../kit/raw-objects.ts";
import { admitted } from "../../kit/snapshots.ts";

const SELECTOR = { portName: "http", protocol: "tcp", family: "ipv4" } as const;
const HERE: NodePlace = { nodeName: "node1", zone: "a" };

interface EndpointFields {
	/** Of "10.244.0.N". */
	readonly number: number;
	readonly node?: string;
	/** "leaving" serves while it terminates, "gone" terminates and serves no more. */
	readonly state?: "ready" | "down" | "leaving" | "gone";
	readonly forNodes?: readonly string[];
	readonly forZones?: readonly string[];
}

const CONDITIONS = {
	ready: { ready: true },
	down: { ready: false, serving: false },
	leaving: { ready: false, serving: true, terminating: true },
	gone: { ready: false, serving: false, terminating: true },
};

function anEndpoint({ number, node, state = "ready", forNodes, forZones }: EndpointFields) {
	const named = (names: readonly string[] | undefined) => names?.map((name) => ({ name }));
	return {
		addresses: [`10.244.0.${number}`],
		conditions: CONDITIONS[state],
		nodeName: node,
		hints: { forNodes: named(forNodes), forZones: named(forZones) },
	};
}

function aSlice(endpoints: readonly EndpointFields[], name = "s1") {
	return admitted(admitEndpointSlice(rawSlice({ name, endpoints: endpoints.map(anEndpoint) })));
}

/** The numbers of the endpoints in each pool. */
function poolsOf(endpoints: readonly EndpointFields[], place = HERE) {
	const { cluster, local, hasAny } = usableEndpoints([aSlice(endpoints)], SELECTOR, place);
	const numbers = (pool: typeof cluster) =>
		pool.map(({ address }) => Number(address.split(".").at(-1)));
	return { cluster: numbers(cluster), local: numbers(local), hasAny };
}

describe("usableEndpoints() and topology hints", () => {
	it("takes the endpoints that are hinted for this node, before those for its zone", () => {
		const endpoints = [
			{ number: 1, forNodes: ["node1"], forZones: ["b"] },
			{ number: 2, forNodes: ["node2"], forZones: ["a"] },
			{ number: 3, forNodes: ["node2", "node1"], forZones: ["b"] },
		];
		expect(poolsOf(endpoints).cluster).toEqual([1, 3]);
	});

	it("takes the endpoints that are hinted for this node's zone", () => {
		const endpoints = [
			{ number: 1, forZones: ["a"] },
			{ number: 2, forZones: ["b"] },
			{ number: 3, forZones: ["b", "a"] },
		];
		expect(poolsOf(endpoints).cluster).toEqual([1, 3]);
		expect(poolsOf(endpoints, { nodeName: "node1", zone: "b" }).cluster).toEqual([2, 3]);
	});

	it("falls back from node hints to zone hints where none is for this node", () => {
		const endpoints = [
			{ number: 1, forNodes: ["node2"], forZones: ["a"] },
			{ number: 2, forNodes: ["node3"], forZones: ["b"] },
		];
		expect(poolsOf(endpoints).cluster).toEqual([1]);
	});

	it("falls back from node hints to zone hints where one endpoint has no node hint", () => {
		const endpoints = [
			{ number: 1, forNodes: ["node1"], forZones: ["b"] },
			{ number: 2, forZones: ["a"] },
		];
		expect(poolsOf(endpoints).cluster).toEqual([2]);
	});

	it("takes all where one ready endpoint has no hint", () => {
		expect(poolsOf([{ number: 1, forZones: ["a"] }, { number: 2 }]).cluster).toEqual([1, 2]);
		expect(poolsOf([{ number: 1, forNodes: ["node1"] }, { number: 2 }]).cluster).toEqual([1, 2]);
	});

	it("does not mind that an endpoint without hints is not ready", () => {
		const endpoints = [
			{ number: 1, forZones: ["a"] },
			{ number: 2, forZones: ["b"] },
			{ number: 3, state: "down" },
			{ number: 4, state: "leaving" },
		] as const;
		expect(poolsOf(endpoints).cluster).toEqual([1]);
	});

	it("takes all where no hint is for this zone", () => {
		const endpoints = [
			{ number: 1, forZones: ["b"] },
			{ number: 2, forZones: ["c"] },
		];
		expect(poolsOf(endpoints).cluster).toEqual([1, 2]);
	});

	it("does not count a hint of an endpoint that is not ready", () => {
		const endpoints = [
			{ number: 1, forZones: ["b"] },
			{ number: 2, forZones: ["a"], state: "leaving" },
		] as const;
		expect(poolsOf(endpoints).cluster).toEqual([1]);
	});

	it.each([undefined, ""])("knows no zone hints on a node whose zone is %j", (zone) => {
		const slice = aSlice([
			{ number: 1, forZones: ["a"] },
			{ number: 2, forZones: ["b"] },
		]);
		const [first, second] = slice.endpoints;
		if (first === undefined || second === undefined) throw new TypeError("no endpoints");
		const endpoints = [first, { ...second, forZones: ["", "undefined"] }];
		const place = { nodeName: "node1", zone };
		expect(usableEndpoints([{ ...slice, endpoints }], SELECTOR, place).cluster).toHaveLength(2);
	});

	it("needs no zone for node hints", () => {
		const endpoints = [
			{ number: 1, forNodes: ["node1"] },
			{ number: 2, forNodes: ["node2"] },
		];
		expect(poolsOf(endpoints, { nodeName: "node1", zone: undefined }).cluster).toEqual([1]);
	});

	it("does not apply hints to the endpoints of this node", () => {
		const endpoints = [
			{ number: 1, node: "node1", forZones: ["b"], forNodes: ["node2"] },
			{ number: 2, node: "node2", forZones: ["a"], forNodes: ["node1"] },
		];
		expect(poolsOf(endpoints)).toEqual({ cluster: [2], local: [1], hasAny: true });
	});

	it("does not apply hints to endpoints that terminate", () => {
		const endpoints = [
			{ number: 1, forZones: ["b"], state: "leaving" },
			{ number: 2, forZones: ["a"], state: "leaving" },
		] as const;
		expect(poolsOf(endpoints).cluster).toEqual([1, 2]);
	});

	it("believes the hints of the slice that calls an endpoint ready", () => {
		const slices = [
			aSlice([{ number: 1, state: "down", forZones: ["b"] }], "s1"),
			aSlice(
				[
					{ number: 1, forZones: ["a"] },
					{ number: 2, forZones: ["b"] },
				],
				"s2",
			),
		];
		for (const order of [slices, slices.toReversed()]) {
			const { cluster } = usableEndpoints(order, SELECTOR, HERE);
			expect(cluster.map(({ address }) => address)).toEqual(["10.244.0.1"]);
		}
	});
});

describe("usableEndpoints() and endpoints that terminate", () => {
	it.each([
		[
			"one is ready anywhere: no terminating one in the pool of all",
			[
				{ number: 1, node: "node2" },
				{ number: 2, node: "node1", state: "leaving" },
			],
			{ cluster: [1], local: [2], hasAny: true },
		],
		[
			"one is ready here: no terminating one in either pool",
			[
				{ number: 1, node: "node1" },
				{ number: 2, node: "node1", state: "leaving" },
			],
			{ cluster: [1], local: [1], hasAny: true },
		],
		[
			"none is ready: what still serves, in either pool its own",
			[
				{ number: 1, node: "node1", state: "leaving" },
				{ number: 2, node: "node2", state: "leaving" },
				{ number: 3, node: "node1", state: "down" },
				{ number: 4, node: "node1", state: "gone" },
			],
			{ cluster: [1, 2], local: [1], hasAny: true },
		],
		[
			"only other nodes have some that serve",
			[
				{ number: 1, node: "node2", state: "leaving" },
				{ number: 2, node: "node1", state: "gone" },
			],
			{ cluster: [1], local: [], hasAny: true },
		],
		[
			"nothing serves",
			[
				{ number: 1, node: "node1", state: "down" },
				{ number: 2, node: "node1", state: "gone" },
			],
			{ cluster: [], local: [], hasAny: false },
		],
		["there is nothing at all", [], { cluster: [], local: [], hasAny: false }],
	] as const)("%s", (_what, endpoints, pools) => {
		expect(poolsOf(endpoints)).toEqual(pools);
	});

	it("an endpoint of no node is on none", () => {
		expect(poolsOf([{ number: 1 }])).toEqual({ cluster: [1], local: [], hasAny: true });
	});

	it("one that serves in one slice and terminates in another one is no last resort", () => {
		const serving = rawSlice({
			name: "s1",
			endpoints: [{ addresses: ["10.244.0.1"], conditions: { ready: false, serving: true } }],
		});
		const slices = [
			admitted(admitEndpointSlice(serving)),
			aSlice([{ number: 1, state: "gone" }], "s2"),
		];
		for (const order of [slices, slices.toReversed()]) {
			expect(usableEndpoints(order, SELECTOR, HERE)).toEqual({
				cluster: [],
				local: [],
				hasAny: false,
			});
		}
	});

	it("one that serves while it terminates in either of two slices is a last resort", () => {
		const slices = [
			aSlice([{ number: 1, state: "gone" }], "s1"),
			aSlice([{ number: 1, state: "leaving" }], "s2"),
		];
		for (const order of [slices, slices.toReversed()]) {
			expect(usableEndpoints(order, SELECTOR, HERE).cluster).toHaveLength(1);
		}
	});
});

describe("localReadyAddresses()", () => {
	it("counts ready endpoints of this node, whatever hints say, each address once (classic 9.5.1)", () => {
		const slices = [
			aSlice(
				[
					{ number: 1, node: "node1", forZones: ["b"] },
					{ number: 2, node: "node1", state: "leaving" },
					{ number: 3, node: "node2" },
					{ number: 4, node: "node1" },
				],
				"s1",
			),
			aSlice([{ number: 4, node: "node1" }], "s2"),
		];
		expect([...localReadyAddresses(slices, SELECTOR, HERE)]).toEqual(["10.244.0.1", "10.244.0.4"]);
	});
});
