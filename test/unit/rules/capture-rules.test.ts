import { describe, expect, test as it } from "vitest";
import { captureRules } from "../../../src/rules/capture-rules.ts";
import { planRules } from "../../../src/rules/plan.ts";
import { restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { aBinding, anAddress, wantedRules } from "../../kit/bindings.ts";
import { PacketTracer } from "../../kit/packet-tracer.ts";
import { aRange } from "../../kit/ranges.ts";

/** "-s 10.2.0.0/16 -d 198.51.100.7/32 :80 cluster": where a rule leads whom, without what is always the same. */
function brief(rules: readonly string[]): string[] {
	const leading = rules.filter((rule) => !rule.endsWith("-j RETURN"));
	return leading.map((rule) => {
		const [, match, port, key, target] =
			/^-A \S+ (.*?)-p \w+ -m \w+ --dport (\d+) -m comment --comment "(\S+)" -j (.+)$/.exec(rule) ??
			[];
		const pool = key?.endsWith("/local") === true ? "local" : "cluster";
		return `${match ?? ""}:${port} ${pool} ${target?.replace("--to-ports ", "")}`;
	});
}

/** Both pools of a Service that external traffic has to stay on the node for. */
const PARTED = [
	aBinding({
		addresses: ["198.51.100.7"],
		kind: "LoadBalancerIP",
		nodePort: 30_080,
		clients: "inside",
	}),
	aBinding({
		addresses: ["198.51.100.7"],
		kind: "LoadBalancerIP",
		nodePort: 30_080,
		clients: "outside",
		pool: "local",
		proxyPort: 30_002,
	}),
];

function networkWith(pods: Partial<NodeNetwork["pods"]>): NodeNetwork {
	return { ...PLAIN_NETWORK, pods: { ranges: [], interfaces: [], ...pods } };
}

describe("captureRules() where a policy parts the clients (classic 9.1.27)", () => {
	it("knows Pods by the ranges of the family, and puts their rules first in each chain", () => {
		const ranges = [aRange("10.2.0.0/16"), aRange("fd10:2::/48"), aRange("10.3.0.0/16")];
		const rules = captureRules(PARTED.toReversed(), "ipv4", networkWith({ ranges }));
		expect(brief(rules["KUBE-PORTALS-CONTAINER"])).toEqual([
			"-s 10.2.0.0/16 -d 198.51.100.7/32 :80 cluster REDIRECT 30001",
			"-s 10.3.0.0/16 -d 198.51.100.7/32 :80 cluster REDIRECT 30001",
			"-d 198.51.100.7/32 :80 local REDIRECT 30002",
		]);
		expect(brief(rules["KUBE-NODEPORT-CONTAINER"])).toEqual([
			"-s 10.2.0.0/16 :30080 cluster REDIRECT 30001",
			"-s 10.3.0.0/16 :30080 cluster REDIRECT 30001",
			":30080 local REDIRECT 30002",
		]);
	});

	it("knows Pods by the interface that they come in on", () => {
		const rules = captureRules(PARTED, "ipv4", networkWith({ interfaces: ["cali+", "cni0"] }));
		expect(brief(rules["KUBE-PORTALS-CONTAINER"])).toEqual([
			"-i cali+ -d 198.51.100.7/32 :80 cluster REDIRECT 30001",
			"-i cni0 -d 198.51.100.7/32 :80 cluster REDIRECT 30001",
			"-d 198.51.100.7/32 :80 local REDIRECT 30002",
		]);
	});

	it("takes what arrives for outside where nobody knows who is a Pod", () => {
		const rules = captureRules(PARTED, "ipv4", PLAIN_NETWORK);
		expect(brief(rules["KUBE-PORTALS-CONTAINER"])).toEqual([
			"-d 198.51.100.7/32 :80 local REDIRECT 30002",
		]);
	});

	it("takes what the node itself sends for inside, and never needs to know Pods for it", () => {
		const ranges = [aRange("10.2.0.0/16")];
		const rules = captureRules(PARTED, "ipv4", networkWith({ ranges }));
		expect(brief(rules["KUBE-PORTALS-HOST"])).toEqual([
			"-d 198.51.100.7/32 :80 cluster REDIRECT 30001",
		]);
		expect(brief(rules["KUBE-NODEPORT-HOST"])).toEqual([":30080 cluster REDIRECT 30001"]);
	});

	it("parts nobody who is for all, wherever they are", () => {
		const ranges = [aRange("10.2.0.0/16")];
		const rules = captureRules([aBinding()], "ipv4", networkWith({ ranges }));
		const everybody = ["-d 10.96.0.10/32 :80 cluster REDIRECT 30001"];
		expect(brief(rules["KUBE-PORTALS-CONTAINER"])).toEqual(everybody);
		expect(brief(rules["KUBE-PORTALS-HOST"])).toEqual(everybody);
	});
});

describe("captureRules() and node ports (classic 9.1.27)", () => {
	const binding = aBinding({ nodePort: 30_080 });
	const six = aBinding({ addresses: ["fd96::10"], nodePort: 30_080 });
	const nodePortsOf = (
		nodePorts: NodeNetwork["nodePorts"],
		family: "ipv4" | "ipv6" = "ipv4",
	): readonly string[][] => {
		const bindings = [family === "ipv4" ? binding : six];
		const rules = captureRules(bindings, family, { ...PLAIN_NETWORK, nodePorts });
		return [brief(rules["KUBE-NODEPORT-CONTAINER"]), brief(rules["KUBE-NODEPORT-HOST"])];
	};

	it("are on every address of the node, loopback too", () => {
		const everywhere = [":30080 cluster REDIRECT 30001"];
		expect(nodePortsOf(PLAIN_NETWORK.nodePorts)).toEqual([everywhere, everywhere]);
	});

	it.each([
		["ipv4", "127.0.0.0/8"],
		["ipv6", "::1/128"],
	] as const)(
		"leave loopback out for what the node sends where it is to be (%s)",
		(family, loopback) => {
			const nodePorts = { ...PLAIN_NETWORK.nodePorts, onLoopback: false };
			expect(nodePortsOf(nodePorts, family)).toEqual([
				[":30080 cluster REDIRECT 30001"],
				[`! -d ${loopback} :30080 cluster REDIRECT 30001`],
			]);
		},
	);

	it("have a rule for each range of the family, and none where it has no range", () => {
		const ranges = {
			ipv4: [aRange("10.1.0.1/32"), aRange("127.0.0.0/8")],
			ipv6: [],
		};
		const both = [
			"-d 10.1.0.1/32 :30080 cluster REDIRECT 30001",
			"-d 127.0.0.0/8 :30080 cluster REDIRECT 30001",
		];
		// A range says itself whether loopback is in it.
		expect(nodePortsOf({ ranges, onLoopback: false })).toEqual([both, both]);
		expect(nodePortsOf({ ranges, onLoopback: true }, "ipv6")).toEqual([[], []]);
	});

	it.each(["ipv4", "ipv6"] as const)(
		"are not for what arrives for loopback, where the node itself reaches them (%s) (case 33a)",
		(family) => {
			const loopback = family === "ipv4" ? "127.0.0.1" : "::1";
			const ranges = { ipv4: [aRange("127.0.0.0/8")], ipv6: [aRange("::1/128")] };
			for (const nodePorts of [{ ranges, onLoopback: true }, PLAIN_NETWORK.nodePorts]) {
				const bindings = [family === "ipv4" ? binding : six];
				const wanted = wantedRules(bindings, { ...PLAIN_NETWORK, nodePorts });
				const text = restoreText(planRules(wanted, family), parseSavedRules(""));
				const tracer = new PacketTracer(text, { nodeAddresses: [loopback] });
				const isLed = (inInterface: string | undefined) =>
					tracer.trace({
						inInterface,
						source: family === "ipv4" ? "10.1.0.2" : "fd10:1::2",
						destination: loopback,
						protocol: "tcp",
						destinationPort: 30_080,
						state: "NEW",
					}).port === 30_001;
				expect([isLed("eth0"), isLed(undefined)]).toEqual([false, true]);
			}
		},
	);

	it("come after an address that a Service has for itself, also where that is the node's", () => {
		const own = aBinding({
			service: "lb",
			addresses: ["10.1.0.1"],
			kind: "LoadBalancerIP",
			port: 30_080,
			proxyPort: 30_009,
		});
		const text = restoreText(planRules(wantedRules([binding, own]), "ipv4"), parseSavedRules(""));
		const tracer = new PacketTracer(text, { nodeAddresses: ["10.1.0.1", "192.168.77.1"] });
		const portFor = (destination: string, inInterface: string | undefined) =>
			tracer.trace({
				inInterface,
				source: "10.1.0.2",
				destination,
				protocol: "tcp",
				destinationPort: 30_080,
				state: "NEW",
			}).port;
		for (const from of ["eth0", undefined]) {
			expect(portFor("10.1.0.1", from)).toBe(30_009);
			expect(portFor("192.168.77.1", from)).toBe(30_001);
		}
	});
});

describe("captureRules() and where they lead", () => {
	it("lead what arrives to the node address of its protocol, and what the node sends not (case 16)", () => {
		const udp = { ipv4: anAddress("10.1.0.1"), ipv6: anAddress("fd10::1") };
		const tcp = { ipv4: anAddress("10.1.0.2"), ipv6: anAddress("fd10::2") };
		const network: NodeNetwork = { ...PLAIN_NETWORK, arrivalAddress: { tcp, udp } };
		const bindings = [
			aBinding({ nodePort: 30_080 }),
			aBinding({ protocol: "udp", proxyPort: 30_054 }),
			aBinding({ protocol: "udp", listenAddress: "192.168.77.1", proxyPort: 30_053 }),
		];
		const rules = captureRules(bindings, "ipv4", network);
		expect(brief(rules["KUBE-PORTALS-CONTAINER"])).toEqual([
			"-d 10.96.0.10/32 :80 cluster DNAT --to-destination 10.1.0.2:30001",
			"-d 10.96.0.10/32 :80 cluster DNAT --to-destination 10.1.0.1:30054",
			// A listener that is bound to one address is led to there in any case.
			"-d 10.96.0.10/32 :80 cluster DNAT --to-destination 192.168.77.1:30053",
		]);
		expect(brief(rules["KUBE-NODEPORT-CONTAINER"])).toEqual([
			":30080 cluster DNAT --to-destination 10.1.0.2:30001",
		]);
		expect(brief(rules["KUBE-PORTALS-HOST"])).toEqual([
			"-d 10.96.0.10/32 :80 cluster REDIRECT 30001",
			"-d 10.96.0.10/32 :80 cluster REDIRECT 30054",
			"-d 10.96.0.10/32 :80 cluster DNAT --to-destination 192.168.77.1:30053",
		]);
		const six = captureRules([aBinding({ addresses: ["fd96::10"] })], "ipv6", network);
		expect(brief(six["KUBE-PORTALS-CONTAINER"])).toEqual([
			"-d fd96::10/128 :80 cluster DNAT --to-destination [fd10::2]:30001",
		]);
	});
});
