import { expect, it } from "vitest";
import {
	type ConntrackEntry,
	deletionArgs,
	parseConntrackLine,
	staleUdpEntries,
} from "../../../src/rules/conntrack-entries.ts";
import { type UdpTarget, udpTargets } from "../../../src/rules/udp-targets.ts";
import { PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { aBinding } from "../../kit/bindings.ts";

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
])("an entry that %s", (_, found, current, gone, isStale) => {
	const expectation = {
		current: udpTargets(current, "ipv4", PLAIN_NETWORK),
		gone,
		clientsAt: () => undefined,
	};
	expect(staleUdpEntries([found], expectation)).toEqual(isStale ? [found] : []);
});

it("deletionArgs() names exactly the wrong target", () => {
	expect(deletionArgs(entry(), "ipv4").join(" ")).toBe(
		"-D -f ipv4 -p udp --orig-dst 10.96.0.53 --dport 53 --reply-src 10.1.0.1 --reply-port-src 30053",
	);
});
