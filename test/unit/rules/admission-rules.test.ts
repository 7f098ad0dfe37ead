import { describe, expect, test as it } from "vitest";
import { admissionRules, sourceRangeRules } from "../../../src/rules/admission-rules.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { toPort } from "../../../src/services/port.ts";
import { aBinding, anAddress } from "../../kit/bindings.ts";

const CHAIN = /^-A KUBE-NODEPORT-NON-LOCAL /;
const bare = (rules: readonly string[]): string[] => rules.map((rule) => rule.replace(CHAIN, ""));

describe("admissionRules()", () => {
	it("decide in the order that is documented: sources, refusals, drops, what is served, the rest (classic 9.1.27)", () => {
		const bindings = [
			aBinding({ service: "serves", proxyPort: 30_001 }),
			aBinding({ service: "drops", proxyPort: 30_002, verdict: "drop" }),
			aBinding({ service: "refuses", proxyPort: 30_003, verdict: "reject" }),
			aBinding({
				service: "balanced",
				proxyPort: 30_004,
				kind: "LoadBalancerIP",
				sourceRanges: ["10.1.0.0/24"],
			}),
		];
		const dnat = "-m conntrack --ctstate DNAT";
		expect(bare(admissionRules(bindings, "ipv4", [toPort(31_797)]))).toEqual([
			`-m conntrack --ctstate RELATED,ESTABLISHED ${dnat} -j ACCEPT`,
			"-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
			`${dnat} -j KUBE-LB-SOURCE-RANGES`,
			`-p tcp -m multiport --dports 30003 ${dnat} -j REJECT --reject-with tcp-reset`,
			`-p tcp -m multiport --dports 30002 ${dnat} -j DROP`,
			`-p tcp -m multiport --dports 30001,30004 ${dnat} -j ACCEPT`,
			"! -i lo -p tcp -m multiport --dports 30001,30002,30003,30004 -j DROP",
			"-p tcp -m multiport --dports 31797 -j ACCEPT",
		]);
	});

	it("ask for no sources where no Service names any", () => {
		expect(admissionRules([aBinding()], "ipv4", []).join("\n")).not.toContain("SOURCE-RANGES");
	});

	it("let health checks in, 15 ports to a rule, each once and in order", () => {
		const ports = Array.from({ length: 31 }, (_, index) => toPort(32_000 - index));
		const rules = bare(admissionRules([], "ipv4", [...ports, toPort(32_000)]));
		const groups = rules
			.filter((rule) => rule.startsWith("-p tcp -m multiport --dports") && rule.endsWith("ACCEPT"))
			.map((rule) => (rule.split(" ")[5] ?? "").split(",").map(Number));
		expect(groups.map(({ length }) => length)).toEqual([15, 15, 1]);
		expect(groups.flat()).toEqual(ports.toReversed());
	});
});

describe("sourceRangeRules()", () => {
	const balanced = (fields: Parameters<typeof aBinding>[0] = {}) =>
		aBinding({
			addresses: ["198.51.100.7"],
			kind: "LoadBalancerIP",
			sourceRanges: ["10.1.0.0/24", "10.9.0.0/16"],
			...fields,
		});
	const on = (...addresses: string[]): NodeNetwork => ({
		...PLAIN_NETWORK,
		addresses: new Set(addresses.map(anAddress)),
	});
	const asked =
		"-p tcp -m conntrack --ctorigdst 198.51.100.7 --ctorigdstport 80 -m comment --comment";
	const rulesFor = (...args: Parameters<typeof sourceRangeRules>) =>
		sourceRangeRules(...args).map((rule) => rule.replace("-A KUBE-LB-SOURCE-RANGES ", ""));

	it("let the ranges through by the address that was dialed, and drop all others", () => {
		expect(rulesFor([balanced()], PLAIN_NETWORK)).toEqual([
			`-s 10.1.0.0/24 ${asked} "shop/cart:http/tcp/ipv4" -j RETURN`,
			`-s 10.9.0.0/16 ${asked} "shop/cart:http/tcp/ipv4" -j RETURN`,
			`${asked} "shop/cart:http/tcp/ipv4" -j DROP`,
		]);
	});

	it("let the address itself through as a source where the node is in a range", () => {
		const sources = rulesFor([balanced()], on("10.3.0.1", "10.9.0.1"))
			.filter((rule) => rule.startsWith("-s "))
			.map((rule) => rule.split(" ")[1]);
		expect(sources).toEqual(["10.1.0.0/24", "10.9.0.0/16", "198.51.100.7/32"]);
	});

	it("do not let it through where the node is in none", () => {
		expect(rulesFor([balanced()], on("10.3.0.1", "fd10::1")).join("\n")).not.toContain(
			"-s 198.51.100.7",
		);
	});

	it("say nothing of addresses without ranges, and of both pools of a port once", () => {
		const bindings = [
			aBinding(),
			balanced({ clients: "inside" }),
			balanced({ clients: "outside", pool: "local", proxyPort: 30_002 }),
			balanced({ protocol: "udp", sourceRanges: ["10.1.0.0/24"] }),
		];
		const rules = rulesFor(bindings, PLAIN_NETWORK);
		expect(rules.filter((rule) => rule.endsWith("-j DROP"))).toHaveLength(2);
		expect(rules).toHaveLength(5);
	});
});
