import fc from "fast-check";
import { expect, test as it } from "vitest";
import { planRules, withoutCapture } from "../../../src/rules/plan.ts";
import { restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";

/** What is given to a kernel that holds nothing of ours. */
function textFor(bindings: readonly Binding[]): string {
	return restoreText(planRules(wantedRules(bindings), "ipv4"), parseSavedRules(""));
}

it("restoreText() of one TCP and one UDP ServicePort (classic 9.1.27, 9.7.1)", () => {
	const text = textFor([
		aBinding(),
		aBinding({
			service: "dns",
			portName: "",
			protocol: "udp",
			port: 53,
			proxyPort: 30_053,
			listenAddress: "10.1.0.1",
		}),
	]);

	expect(text).toBe(`*filter
:KUBE-NODEPORT-NON-LOCAL - [0:0]
:KUBE-LB-SOURCE-RANGES - [0:0]
:KUBE-CLUSTER-IPS - [0:0]
:KUBE-UNUSED-CLUSTER-IPS - [0:0]
:KUBE-REFUSED-CLUSTER-IPS - [0:0]
-I INPUT 1 -m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL
-I FORWARD 1 -m conntrack --ctstate NEW -m comment --comment "ports and addresses of ClusterIPs that no Service has" -j KUBE-CLUSTER-IPS
-I OUTPUT 1 -m conntrack --ctstate NEW -m comment --comment "ports and addresses of ClusterIPs that no Service has" -j KUBE-CLUSTER-IPS
-A KUBE-NODEPORT-NON-LOCAL -m conntrack --ctstate RELATED,ESTABLISHED -m conntrack --ctstate DNAT -j ACCEPT
-A KUBE-NODEPORT-NON-LOCAL -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN
-A KUBE-NODEPORT-NON-LOCAL -p tcp -m multiport --dports 30001 -m conntrack --ctstate DNAT -j ACCEPT
-A KUBE-NODEPORT-NON-LOCAL -d 10.1.0.1/32 -p udp -m multiport --dports 30053 -m conntrack --ctstate DNAT -j ACCEPT
-A KUBE-NODEPORT-NON-LOCAL ! -i lo -p tcp -m multiport --dports 30001 -j DROP
-A KUBE-NODEPORT-NON-LOCAL -d 10.1.0.1/32 ! -i lo -p udp -m multiport --dports 30053 -j DROP
COMMIT
*nat
:KUBE-PORTALS-CONTAINER - [0:0]
:KUBE-PORTALS-HOST - [0:0]
:KUBE-NODEPORT-CONTAINER - [0:0]
:KUBE-NODEPORT-HOST - [0:0]
-I PREROUTING 1 -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-CONTAINER
-I OUTPUT 1 -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST
-A OUTPUT -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST
-A KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -m comment --comment "shop/cart:http/tcp/ipv4" -j REDIRECT --to-ports 30001
-A KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -p udp -m udp --dport 53 -m comment --comment "shop/dns:/udp/ipv4" -j DNAT --to-destination 10.1.0.1:30053
-A KUBE-PORTALS-HOST -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -m comment --comment "shop/cart:http/tcp/ipv4" -j REDIRECT --to-ports 30001
-A KUBE-PORTALS-HOST -d 10.96.0.10/32 -p udp -m udp --dport 53 -m comment --comment "shop/dns:/udp/ipv4" -j DNAT --to-destination 10.1.0.1:30053
COMMIT
`);
});

it("planRules() keeps the families apart and writes IPv6 as ip6tables wants it (classic 9.1.38, 9.7.1)", () => {
	const bindings = [
		aBinding(),
		aBinding({
			addresses: ["fd96::10"],
			protocol: "udp",
			listenAddress: "fd10::1",
			verdict: "reject",
		}),
	];

	const { chains, keys } = planRules(wantedRules(bindings), "ipv6");

	expect(chains.get("KUBE-PORTALS-HOST")).toEqual([
		'-A KUBE-PORTALS-HOST -d fd96::10/128 -p udp -m udp --dport 80 -m comment --comment "shop/cart:http/udp/ipv6" -j DNAT --to-destination [fd10::1]:30001',
	]);
	expect(chains.get("KUBE-NODEPORT-NON-LOCAL")).toContain(
		"-A KUBE-NODEPORT-NON-LOCAL -d fd10::1/128 -p udp -m multiport --dports 30001 -m conntrack --ctstate DNAT -j REJECT --reject-with icmp6-port-unreachable",
	);
	expect([...keys]).toEqual(["shop/cart:http/udp/ipv6"]);
});

it("planRules() puts at most 15 ports into one rule", () => {
	const bindings = Array.from({ length: 31 }, (_, index) =>
		aBinding({
			service: `s${index}`,
			addresses: [`10.96.0.${index + 1}`],
			proxyPort: 30_000 + index,
		}),
	);

	const rules =
		planRules(wantedRules(bindings), "ipv4").chains.get("KUBE-NODEPORT-NON-LOCAL") ?? [];
	const counts = rules.map((rule) => /--dports (\S+)/.exec(rule)?.[1]?.split(",").length);

	expect(counts).toEqual([undefined, undefined, 15, 15, 1, 15, 15, 1]);
});

it("planRules() gives every address of a ServicePort its rule, in numeric order (classic 9.1.27)", () => {
	const bindings = [aBinding({ addresses: ["10.96.0.20", "10.96.0.3"] })];
	const plan = planRules(wantedRules(bindings), "ipv4");

	expect(plan.chains.get("KUBE-PORTALS-CONTAINER")?.map((rule) => rule.split(" ")[3])).toEqual([
		"10.96.0.3/32",
		"10.96.0.20/32",
	]);
});

it("planRules() with nothing to serve still lets established flows go on", () => {
	const { chains } = planRules(wantedRules([]), "ipv4");

	expect(chains.get("KUBE-PORTALS-CONTAINER")).toEqual([]);
	expect(chains.get("KUBE-NODEPORT-NON-LOCAL")).toHaveLength(2);
});

it("withoutCapture() takes only what leads new connections in", () => {
	const plan = planRules(wantedRules([aBinding()]), "ipv4");

	const off = withoutCapture(plan);

	expect(off.chains.get("KUBE-PORTALS-CONTAINER")).toEqual([]);
	expect(off.chains.get("KUBE-PORTALS-HOST")).toEqual([]);
	expect(off.chains.get("KUBE-NODEPORT-NON-LOCAL")).toEqual(
		plan.chains.get("KUBE-NODEPORT-NON-LOCAL"),
	);
	expect(off.keys.size).toBe(0);
});

const anyBinding = fc
	.record({
		service: fc.stringMatching(/^[a-z]{1,3}$/),
		protocol: fc.constantFrom("tcp" as const, "udp" as const),
		port: fc.integer({ min: 1, max: 65_535 }),
		proxyPort: fc.integer({ min: 1, max: 65_535 }),
		verdict: fc.constantFrom("serve", "reject", "drop"),
		addresses: fc.constantFrom(["10.96.0.1"], ["10.96.7.7", "10.96.0.1"], ["fd96::1"]),
	})
	.map(aBinding);

it("planRules() gives the same text whatever the order", () => {
	const bindings = fc.uniqueArray(anyBinding, { selector: ({ key }) => key });
	fc.assert(
		fc.property(bindings, fc.integer(), (own, seed) => {
			const other = own.toSorted((a, b) => ((a.port * seed) % 97) - ((b.port * seed) % 97));
			expect(planRules(wantedRules(other), "ipv4").text).toBe(
				planRules(wantedRules(own), "ipv4").text,
			);
		}),
	);
});

it("no rule of nat is without a destination and a protocol, whatever the names", () => {
	fc.assert(
		fc.property(fc.array(fc.tuple(fc.string(), fc.string(), fc.string())), (names) => {
			const bindings = names.map(([namespace, service, portName]) =>
				aBinding({ namespace, service, portName }),
			);
			const text = textFor(bindings);
			const nat = text.slice(text.indexOf("*nat")).split("\n");
			const rules = nat.filter((line) => line.startsWith("-A KUBE"));
			expect(rules).toHaveLength(bindings.length * 2);
			for (const rule of rules) {
				expect(rule).toMatch(
					/^-A KUBE-PORTALS-(?:CONTAINER|HOST) -d 10\.96\.0\.10\/32 -p tcp -m tcp --dport 80 -m comment --comment "[A-Za-z0-9._:/?~-]*" -j REDIRECT --to-ports 30001$/,
				);
			}
			expect(nat.filter((line) => !/^(?:\*nat|:KUBE|-[AI] |COMMIT$|$)/.test(line))).toEqual([]);
		}),
	);
});
