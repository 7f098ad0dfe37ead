import { describe, expect, test as it } from "vitest";
import {
	isKubeProxyChain,
	type KubeProxyTable,
	parseKubeProxyRules,
} from "../../../src/rules/kube-proxy-rules.ts";
import { kubeProxyRules } from "../../kit/kube-proxy-rules.ts";

describe("isKubeProxyChain()", () => {
	it.each<[KubeProxyTable, string, boolean]>([
		["nat", "KUBE-SERVICES", true],
		["nat", "KUBE-SVC-4N57TFCL4MD7ZTDA", true],
		["nat", "KUBE-XLB-4N57TFCL4MD7ZTDA", true],
		["nat", "KUBE-FIREWALL", true],
		["filter", "KUBE-FORWARD", true],
		["filter", "KUBE-IPVS-OUT-FILTER", true],
		["mangle", "KUBE-PROXY-CANARY", true],
		// kubelet's
		["filter", "KUBE-FIREWALL", false],
		["nat", "KUBE-MARK-DROP", false],
		["nat", "KUBE-KUBELET-CANARY", false],
		["mangle", "KUBE-IPTABLES-HINT", false],
		["nat", "KUBE-HOSTPORTS", false],
		// ours
		["nat", "KUBE-PORTALS-CONTAINER", false],
		["nat", "KUBE-NODEPORT-HOST", false],
		["filter", "KUBE-NODEPORT-NON-LOCAL", false],
		// kube-router's, and names that only look alike
		["filter", "KUBE-ROUTER-FORWARD", false],
		["filter", "KUBE-NWPLCY-4N57TFCL4MD7ZTDA", false],
		["nat", "KUBE-SVC-MINE", false],
		["filter", "KUBE-SVC-4N57TFCL4MD7ZTDA", false],
	])("%s %s: %s", (table, name, expected) => {
		expect(isKubeProxyChain(table, name)).toBe(expected);
	});
});

describe("parseKubeProxyRules()", () => {
	it("tells chains, jumps and the rules of others that lead there", () => {
		const rules = parseKubeProxyRules(
			`${kubeProxyRules()}*nat\n-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ\n-A OUTPUT -d 10.0.0.1/32 -j KUBE-SERVICES\nCOMMIT\n`,
		);
		expect([...rules.nat.chains]).toEqual([
			"KUBE-MARK-MASQ",
			"KUBE-NODEPORTS",
			"KUBE-POSTROUTING",
			"KUBE-PROXY-CANARY",
			"KUBE-SEP-AAAAAAAAAAAAAAA2",
			"KUBE-SEP-AAAAAAAAAAAAAAA3",
			"KUBE-SERVICES",
			"KUBE-SVC-AAAAAAAAAAAAAAA7",
		]);
		expect(rules.nat.jumps).toEqual([
			'-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
			'-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
			'-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
		]);
		expect(rules.nat.references).toEqual([
			"-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ",
			"-A OUTPUT -d 10.0.0.1/32 -j KUBE-SERVICES",
		]);
		expect(rules.filter.chains.has("KUBE-FIREWALL")).toBe(false);
		expect(rules.filter.jumps).toHaveLength(9);
		expect(rules.filter.references).toEqual([]);
		expect([...rules.mangle.chains]).toEqual(["KUBE-PROXY-CANARY"]);
	});

	it.each([
		["of the ipvs mode", "INPUT", "kube-proxy firewall rules", "", "KUBE-PROXY-FIREWALL"],
		["of the ipvs mode", "OUTPUT", "kubernetes ipvs access filter", "", "KUBE-IPVS-OUT-FILTER"],
		["of the ipvs mode", "INPUT", "kubernetes health check rules", "", "KUBE-NODE-PORT"],
	])("knows the jumps %s in %s: %s", (_mode, hook, comment, _matches, chain) => {
		const rule = `-A ${hook} -m comment --comment "${comment}" -j ${chain}`;
		const { filter } = parseKubeProxyRules(`*filter\n${rule}\nCOMMIT\n`);
		expect(filter).toMatchObject({ jumps: [rule], references: [] });
	});

	it.each([
		"-A FORWARD -j KUBE-FORWARD",
		'-A FORWARD -m comment --comment "mine" -j KUBE-FORWARD',
		'-A FORWARD -s 10.0.0.0/8 -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
		'-A MINE -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
		"-A FORWARD -g KUBE-FORWARD",
	])("takes %s for somebody else's", (rule) => {
		const { filter } = parseKubeProxyRules(`*filter\n${rule}\nCOMMIT\n`);
		expect(filter).toMatchObject({ jumps: [], references: [rule] });
	});

	it("does not take a comment for a target", () => {
		const rule = '-A INPUT -m comment --comment "see -j KUBE-SERVICES" -j ACCEPT';
		const { filter } = parseKubeProxyRules(`*filter\n${rule}\nCOMMIT\n`);
		expect(filter.references).toEqual([]);
	});
});
