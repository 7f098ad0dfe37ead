import { describe, expect, test as it } from "vitest";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import { admitEndpoints } from "../../../src/services/admit-endpoints.ts";
import { admitService } from "../../../src/services/admit-service.ts";
import { objectKey, type Snapshot } from "../../../src/services/objects.ts";
import {
	createServicePortPlanner,
	type ServicePortPlan,
} from "../../../src/services/plan-service-ports.ts";
import { rawService, rawSlice } from "../../kit/raw-objects.ts";
import { admitted, snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

const PLAIN = { serviceProxyName: undefined };
const PORTS = [
	{ name: "a", protocol: "UDP", port: 53 },
	{ name: "b", protocol: "UDP", port: 54 },
];

/** A subset of an Endpoints object: addresses by their last part, and ports by name. */
interface Subset {
	readonly at: readonly (number | string)[];
	readonly ports: Readonly<Record<string, number>>;
}

/** The Service with these ports, and its Endpoints object. */
function stateOf(ports: readonly unknown[], subsets: readonly Subset[]): Snapshot {
	const raw = {
		metadata: { namespace: "shop", name: "cart" },
		subsets: subsets.map(({ at, ports: numbers }) => ({
			addresses: at.map((ip) => ({ ip: typeof ip === "string" ? ip : `10.244.0.${ip}` })),
			ports: Object.entries(numbers).map(([name, port]) => ({ name, port, protocol: "UDP" })),
		})),
	};
	return {
		...snapshotOf([rawService({ ports })]),
		endpointSlices: new Map(
			admitted(admitEndpoints(raw)).map((slice) => [objectKey(slice), slice]),
		),
	};
}

/** "1:11" by the name of the port. */
function endpointsOf({ servicePorts }: ServicePortPlan): ReadonlyMap<string, readonly string[]> {
	const short = (key: string) => key.replace("10.244.0.", "");
	return new Map(
		servicePorts.map(({ portName, endpoints }) => [
			portName,
			endpoints.map(({ key }) => short(key)),
		]),
	);
}

describe("an Endpoints object that changes", () => {
	const one = { at: [1], ports: { a: 11 } };
	const two = { at: [2], ports: { b: 12 } };
	const many = [
		{ at: [1, 2], ports: { a: 11, b: 12 } },
		{ at: [3], ports: { a: 13 } },
	];

	interface Wanted {
		/** Endpoints afterwards, by port. */
		readonly after: Readonly<Record<"a" | "b", readonly string[]>>;
		/** Whose flows have to move. */
		readonly lost?: readonly string[];
		/** Ports that had none and have some: what was refused until now is freed. */
		readonly begin?: readonly string[];
	}
	type Row = readonly [string, readonly Subset[], readonly Subset[], Wanted];
	const ALL = { a: ["1:11", "2:11", "3:13"], b: ["1:12", "2:12"] };
	const rows: readonly Row[] = [
		["nothing stays nothing", [], [], { after: { a: [], b: [] } }],
		["one port stays", [one], [one], { after: { a: ["1:11"], b: [] } }],
		["many stay", many, many, { after: ALL }],
		["they stay in another order", many, many.toReversed(), { after: ALL }],
		["one comes", [], [one], { after: { a: ["1:11"], b: [] }, begin: ["a"] }],
		["one goes", [one], [], { after: { a: [], b: [] }, lost: ["a 1:11"] }],
		[
			"an address and a port come: each address has each port",
			[one],
			[{ at: [1, 2], ports: { a: 11, b: 12 } }],
			{ after: { a: ["1:11", "2:11"], b: ["1:12", "2:12"] }, begin: ["b"] },
		],
		[
			"an address and a port go",
			[{ at: [1, 2], ports: { a: 11, b: 12 } }],
			[one],
			{ after: { a: ["1:11"], b: [] }, lost: ["a 2:11", "b 1:12", "b 2:12"] },
		],
		["a subset comes", [one], [one, two], { after: { a: ["1:11"], b: ["2:12"] }, begin: ["b"] }],
		["a subset goes", [one, two], [one], { after: { a: ["1:11"], b: [] }, lost: ["b 2:12"] }],
		[
			"a port is renamed",
			[one],
			[{ at: [1], ports: { b: 11 } }],
			{ after: { a: [], b: ["1:11"] }, lost: ["a 1:11"], begin: ["b"] },
		],
		[
			"a port gets another number",
			[one],
			[{ at: [1], ports: { a: 22 } }],
			{ after: { a: ["1:22"], b: [] }, lost: ["a 1:11"] },
		],
		[
			"much changes at once",
			many,
			[
				{ at: [3, 4], ports: { a: 13 } },
				{ at: [2], ports: { a: 11 } },
			],
			{ after: { a: ["2:11", "3:13", "4:13"], b: [] }, lost: ["a 1:11", "b 1:12", "b 2:12"] },
		],
		[
			"subsets without addresses or ports count for nothing",
			[one],
			[{ at: [], ports: { b: 12 } }, { at: [9], ports: {} }, one],
			{ after: { a: ["1:11"], b: [] } },
		],
		[
			"a port that the Service has not, and addresses of the other family, are not its own",
			[one],
			[{ at: [1, "fd10::1"], ports: { a: 11, x: 13 } }],
			{ after: { a: ["1:11"], b: [] } },
		],
	];

	it.each(rows)("%s (classic 9.5.2, 9.5.3, 9.7.1)", (_what, subsets, next, wanted) => {
		const planner = createServicePortPlanner(PLAIN);
		const before = endpointsOf(planner.plan(stateOf(PORTS, subsets), plainView));
		const found = endpointsOf(planner.plan(stateOf(PORTS, next), plainView));
		const { after, lost = [], begin = [] } = wanted;
		expect(Object.fromEntries(found)).toEqual(after);
		const gone = [...before].flatMap(([name, keys]) =>
			keys.filter((key) => !found.get(name)?.includes(key)).map((key) => `${name} ${key}`),
		);
		expect(gone).toEqual(lost);
		const begun = [...found].filter(([name, keys]) => keys.length > 0 && !before.get(name)?.length);
		expect(begun.map(([name]) => name)).toEqual(begin);
	});

	it("serves an unnamed port by the unnamed port (classic 9.5.2, 9.5.3)", () => {
		const ports = [{ protocol: "UDP", port: 53 }];
		const planner = createServicePortPlanner(PLAIN);
		expect(endpointsOf(planner.plan(stateOf(ports, []), plainView))).toEqual(new Map([["", []]]));
		const state = stateOf(ports, [{ at: [1], ports: { "": 11, a: 12 } }]);
		expect(endpointsOf(planner.plan(state, plainView))).toEqual(new Map([["", ["1:11"]]]));
	});
});

describe("EndpointSlices that come anew", () => {
	const ready = (address: string, isReady = true) => ({
		addresses: [address],
		conditions: { ready: isReady },
	});
	const ONE = ready("10.244.0.1");
	const TWO = ready("10.244.0.2");
	const [A, B] = [
		{ name: "a", protocol: "UDP", port: 11 },
		{ name: "b", protocol: "UDP", port: 12 },
	];
	const slice = (endpoints: readonly unknown[], ports: readonly unknown[] = [A, B], name = "s1") =>
		rawSlice({ name, ports, endpoints });
	const ofHosts = rawSlice({
		name: "hosts",
		addressType: "FQDN",
		endpoints: [{ addresses: ["a.example"] }],
	});
	const before = [slice([ONE, TWO])];

	it.each([
		["and say the same", [slice([ONE, TWO])], true],
		["with their ports in another order", [slice([ONE, TWO], [B, A])], true],
		["with their endpoints in another order", [slice([TWO, ONE])], true],
		["beside one of host names", [...before, ofHosts], true],
		["beside one that says the same", [...before, slice([ONE, TWO], [A, B], "s2")], true],
		["beside one that says a part of it", [...before, slice([TWO], [A], "s2")], true],
		["with another endpoint, not ready", [slice([ONE, TWO, ready("10.244.0.3", false)])], true],
		["without one of their ports", [slice([ONE, TWO], [A])], false],
		["with another number of a port", [slice([ONE, TWO], [A, { ...B, port: 13 }])], false],
		["without one of their endpoints", [slice([ONE])], false],
		["with another endpoint", [slice([ONE, TWO, ready("10.244.0.3")])], false],
		["with an endpoint that is not ready now", [slice([ONE, ready("10.244.0.2", false)])], false],
		["beside one that says more", [...before, slice([ready("10.244.0.3")], [A], "s2")], false],
		["no more", [], false],
	] as const)("%s (classic 9.5.5, 9.5.6, 9.6.3)", (_what, after, isSame) => {
		const planner = createServicePortPlanner(PLAIN);
		const service = rawService({ ports: PORTS });
		const plan = planner.plan(snapshotOf([service], before), plainView);
		const next = planner.plan(snapshotOf([service], after), plainView);
		expect(next === plan).toBe(isSame);
		// And back again.
		expect(planner.plan(snapshotOf([service], before), plainView)).toEqual(plan);
	});

	it("have no endpoint while none is ready, and those that are afterwards (classic 9.5.5)", () => {
		const planner = createServicePortPlanner(PLAIN);
		const service = rawService({ ports: [PORTS[0]] });
		const keysOf = (...states: readonly boolean[]) => {
			const endpoints = states.map((isReady, index) => ready(`10.244.0.${index + 1}`, isReady));
			const plan = planner.plan(snapshotOf([service], [slice(endpoints)]), plainView);
			return endpointsOf(plan).get("a");
		};
		expect(keysOf(true, true)).toEqual(["1:11", "2:11"]);
		expect(keysOf(false, false)).toEqual([]);
		expect(keysOf(true, false)).toEqual(["1:11"]);
		expect(keysOf(true, true)).toEqual(["1:11", "2:11"]);
	});
});

/** Whatever is written to it from now on throws. */
function deepFreeze<T>(value: T): T {
	if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
		Object.freeze(value);
		for (const each of value instanceof Map ? value.values() : Object.values(value)) {
			deepFreeze(each);
		}
	}
	return value;
}

describe("objects of the sources", () => {
	it("are changed neither where they are admitted nor where they are planned (classic 9.6.4)", () => {
		const raw = deepFreeze({
			service: rawService({ ports: PORTS }),
			slices: [
				rawSlice({ name: "s2", ports: [{ name: "a", protocol: "UDP", port: 11 }] }),
				rawSlice({
					name: "s1",
					ports: [
						{ name: "b", protocol: "UDP", port: 12 },
						{ name: "a", protocol: "UDP", port: 11 },
					],
					endpoints: ["10.244.1.9", "10.244.1.2"],
				}),
			],
		});
		const service = deepFreeze(admitted(admitService(raw.service)));
		const slices = raw.slices.map((each) => deepFreeze(admitted(admitEndpointSlice(each))));
		const snapshot = deepFreeze({
			services: new Map([[objectKey(service), service]]),
			endpointSlices: new Map(slices.map((each) => [objectKey(each), each])),
			serviceCidrs: new Map(),
			node: undefined,
		});
		const planner = createServicePortPlanner(PLAIN);
		const plan = deepFreeze(planner.plan(snapshot, plainView));
		expect(endpointsOf(plan).get("a")).toHaveLength(2);
		expect(planner.plan({ ...snapshot, endpointSlices: new Map() }, plainView)).not.toBe(plan);
		expect(planner.plan(snapshot, plainView)).toEqual(plan);
	});
});
