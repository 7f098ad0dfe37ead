import { describe, expect, it } from "vitest";
import {
	type ConntrackEntry,
	deletionArgs,
	parseConntrackLine,
	staleTest,
} from "../../../src/rules/conntrack-entries.ts";
import { previousUdpTargets, type UdpTarget, udpTargets } from "../../../src/rules/udp-targets.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { toPort } from "../../../src/services/port.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { aBinding, anAddress } from "../../kit/bindings.ts";

const dns = aBinding({
	protocol: "udp",
	addresses: ["10.96.0.53"],
	port: 53,
	proxyPort: 30_053,
	listenAddress: "10.1.0.1",
});

function entry(fields: Partial<ConntrackEntry> = {}): ConntrackEntry {
	return {
		originalSource: "10.1.0.2",
		originalDestination: "10.96.0.53",
		originalPort: 53,
		replySource: "10.1.0.1",
		replyPort: 30_053,
		...fields,
	};
}

it.each([
	[
		"udp      17 29 src=10.1.0.2 dst=10.96.0.53 sport=45000 dport=53 [UNREPLIED] src=10.96.0.53 dst=10.1.0.2 sport=53 dport=45000 mark=0 use=1",
		entry({ replySource: "10.96.0.53", replyPort: 53 }),
	],
	[
		"udp      17 119 src=10.1.0.2 dst=10.96.0.53 sport=45000 dport=53 src=10.1.0.1 dst=10.1.0.2 sport=30053 dport=45000 [ASSURED] mark=0 secctx=null use=1",
		entry(),
	],
	[
		"udp      17 119 src=10.1.0.2 dst=10.96.0.53 sport=45000 dport=53 packets=3 bytes=180 src=10.1.0.1 dst=10.1.0.2 sport=30053 dport=45000 packets=3 bytes=300 [ASSURED] mark=0 use=1",
		entry(),
	],
	[
		"udp      17 29 src=fd10::2 dst=fd96::53 sport=45000 dport=53 src=fd10::1 dst=fd10::2 sport=30053 dport=45000 mark=0 use=1",
		entry({ originalSource: "fd10::2", originalDestination: "fd96::53", replySource: "fd10::1" }),
	],
	[
		"tcp      6 431999 ESTABLISHED src=10.1.0.2 dst=10.96.0.53 sport=45000 dport=53 src=10.1.0.1 dst=10.1.0.2 sport=30053 dport=45000 [ASSURED] mark=0 use=1",
		undefined,
	],
	["conntrack v1.4.7 (conntrack-tools): 2 flow entries have been shown.", undefined],
	["", undefined],
])("parseConntrackLine() of %j", (line, expected) => {
	expect(parseConntrackLine(line)).toEqual(expected);
});

const past: UdpTarget = {
	address: "10.96.0.53",
	port: 53,
	proxyPort: 29_999,
	listenAddress: undefined,
	clients: "all",
	serves: true,
};

it.each([
	["leads to the present proxy port", entry(), [dns], [], false],
	[
		"was made before the rule",
		entry({ replySource: "10.96.0.53", replyPort: 53 }),
		[dns],
		[],
		true,
	],
	["leads to an old proxy port", entry({ replyPort: 29_999 }), [dns], [], true],
	["leads to an old listen address", entry({ replySource: "10.8.0.1" }), [dns], [], true],
	["leads to a Pod, as kube-proxy would", entry({ replySource: "10.2.1.2" }), [dns], [], true],
	[
		"is for a ServicePort that refuses",
		entry(),
		[{ ...dns, verdict: "reject" as const }],
		[],
		true,
	],
	["is for another port", entry({ originalPort: 54 }), [dns], [], false],
	["is for another address", entry({ originalDestination: "10.96.0.54" }), [dns], [], false],
	["is for a removed ServicePort", entry({ replyPort: 29_999 }), [], [past], true],
	[
		"is for a removed ServicePort that somebody else serves now",
		entry({ replySource: "10.2.1.2", replyPort: 53 }),
		[],
		[past],
		false,
	],
	["is of nobody we know", entry(), [], [], false],
	[
		"is for the TCP twin only",
		entry({ replyPort: 1 }),
		[{ ...dns, protocol: "tcp" as const }],
		[],
		false,
	],
	[
		"leads anywhere on the node, with a listener on all addresses",
		entry({ replySource: "192.168.77.1" }),
		[{ ...dns, listenAddress: undefined }],
		[],
		false,
	],
	[
		"has no NAT, with a listener on all addresses and the same number",
		entry({ replySource: "10.96.0.53" }),
		[{ ...dns, listenAddress: undefined }],
		[],
		true,
	],
	[
		"leads to an address that the node has lost, with a listener on all addresses",
		entry({ replySource: "10.8.0.1" }),
		[{ ...dns, listenAddress: undefined }],
		[],
		true,
	],
	[
		"is for a removed ServicePort, and leads to an address that the node has lost",
		entry({ replySource: "10.8.0.1", replyPort: 29_999 }),
		[],
		[past],
		true,
	],
])("an entry that %s (case 2g, case 4c)", (_, found, current, gone, isStale) => {
	const own = new Set(["10.1.0.1", "192.168.77.1", "127.0.0.1"]);
	const expectation = {
		current: udpTargets(current, "ipv4", PLAIN_NETWORK),
		gone,
		clientsAt: () => undefined,
		isOwn: (address: string) => own.has(address),
	};
	expect([found].filter(staleTest(expectation))).toEqual(isStale ? [found] : []);
});

it("deletionArgs() names exactly the wrong target (classic 9.1.29, 9.7.2)", () => {
	const six = entry({ originalDestination: "fd96::53", replySource: "fd10::1" });
	expect(deletionArgs(six, "ipv6").join(" ")).toBe(
		"-D -f ipv6 -p udp --orig-dst fd96::53 --dport 53 --reply-src fd10::1 --reply-port-src 30053",
	);
	expect(deletionArgs(entry(), "ipv4").join(" ")).toBe(
		"-D -f ipv4 -p udp --orig-dst 10.96.0.53 --dport 53 --reply-src 10.1.0.1 --reply-port-src 30053",
	);
});

describe("an entry for a node port that is redirected to the address that was dialed", () => {
	const port = { protocol: "udp", port: 53, nodePort: 30_053, proxyPort: 40_001 } as const;
	const network: NodeNetwork = { ...PLAIN_NETWORK, addresses: new Set([anAddress("10.1.0.1")]) };
	const targets = udpTargets([aBinding(port)], "ipv4", network);
	const found = entry({
		originalDestination: "10.1.0.1",
		originalPort: 30_053,
		replySource: "10.1.0.1",
		replyPort: 40_001,
	});
	const isStale = (current: readonly UdpTarget[], gone: readonly UdpTarget[], each = found) =>
		staleTest({ current, gone, clientsAt: () => undefined, isOwn: () => true })(each);

	it("is right while it is served, and stale once it is not", () => {
		expect(isStale(targets, [])).toBe(false);
		expect(isStale([], targets)).toBe(true);
	});

	it("is stale where it was made before the rule", () => {
		expect(isStale(targets, [], { ...found, replyPort: 30_053 })).toBe(true);
	});
});

describe("an entry for an address whose clients a policy parts", () => {
	const parted = {
		protocol: "udp",
		addresses: ["198.51.100.7"],
		kind: "LoadBalancerIP",
		port: 53,
		nodePort: 30_053,
		listenAddress: "10.1.0.1",
	} as const;
	const inside = aBinding({ ...parted, clients: "inside", proxyPort: 40_001 });
	const outside = aBinding({ ...parted, clients: "outside", pool: "local", proxyPort: 40_002 });
	const network: NodeNetwork = {
		...PLAIN_NETWORK,
		addresses: new Set([anAddress("10.1.0.1"), anAddress("10.3.0.1")]),
	};
	const PLACES = new Map([
		["10.2.1.2", "inside"],
		["10.1.0.2", "outside"],
	] as const);
	const isStale = (found: Partial<ConntrackEntry>, bindings = [inside, outside]) =>
		staleTest({
			current: udpTargets(bindings, "ipv4", network),
			gone: [],
			clientsAt: (source) => new Map<string, "inside" | "outside">(PLACES).get(source),
			isOwn: () => true,
		})(entry({ originalDestination: "198.51.100.7", ...found }));

	it.each([
		["a Pod in the pool of all", "10.2.1.2", 40_001, false],
		["a Pod in the pool of this node", "10.2.1.2", 40_002, true],
		["somebody outside in the pool of this node", "10.1.0.2", 40_002, false],
		["somebody outside in the pool of all", "10.1.0.2", 40_001, true],
		["one that cannot be told in either pool", "192.0.2.9", 40_001, false],
		["one that cannot be told in either pool, the other", "192.0.2.9", 40_002, false],
		["one that cannot be told in neither pool", "192.0.2.9", 40_003, true],
	])("is judged by where its client is: %s", (_who, originalSource, replyPort, wanted) => {
		expect(isStale({ originalSource, replyPort })).toBe(wanted);
		// The node port, on each of the node's addresses.
		for (const originalDestination of ["10.1.0.1", "10.3.0.1"]) {
			const found = { originalSource, replyPort, originalDestination, originalPort: 30_053 };
			expect(isStale(found)).toBe(wanted);
		}
	});

	it("is stale where the pool of its client drops, and not for the others", () => {
		const bindings: Binding[] = [inside, { ...outside, verdict: "drop" }];
		expect(isStale({ originalSource: "10.1.0.2", replyPort: 40_002 }, bindings)).toBe(true);
		expect(isStale({ originalSource: "10.2.1.2", replyPort: 40_001 }, bindings)).toBe(false);
	});

	it("is somebody else's where no pool is for its client", () => {
		const found = { originalSource: "10.1.0.2", replySource: "10.9.0.9", replyPort: 53 };
		expect(isStale(found, [inside])).toBe(false);
		expect(isStale(found, [outside])).toBe(true);
	});

	it("for a node port on an address that it is not on is nobody's", () => {
		const found = { originalPort: 30_053, originalDestination: "10.7.0.1", replyPort: 40_009 };
		expect(isStale({ ...found, originalSource: "10.1.0.2" })).toBe(false);
	});

	it("is deleted for this client alone", () => {
		expect(deletionArgs(entry(), "ipv4", true).join(" ")).toContain(" --orig-src 10.1.0.2 ");
		expect(deletionArgs(entry(), "ipv4")).not.toContain("--orig-src");
	});
});

describe("previousUdpTargets()", () => {
	it("takes a node port's flows from whichever address, and leaves TCP out (case 4c)", () => {
		const port = toPort(30_053);
		const found = { key: undefined, family: "ipv4", port, proxyPort: toPort(40_001) } as const;
		const gone = previousUdpTargets([
			{ ...found, protocol: "udp", address: undefined, listenAddress: anAddress("10.1.0.1") },
			{ ...found, protocol: "tcp", address: undefined, listenAddress: undefined },
		]);
		expect(gone).toHaveLength(1);
		const isStale = staleTest({
			current: [],
			gone,
			clientsAt: () => undefined,
			isOwn: () => true,
		});
		const left = entry({ originalPort: 30_053, replyPort: 40_001 });
		expect(isStale({ ...left, originalDestination: "10.3.0.1" })).toBe(true);
		expect(isStale({ ...left, originalDestination: "10.7.0.1" })).toBe(true);
		expect(isStale({ ...left, replyPort: 40_002 })).toBe(false);
		expect(isStale({ ...left, originalPort: 53 })).toBe(false);
	});
});
