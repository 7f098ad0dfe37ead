import { describe, expect, test as it } from "vitest";
import { clusterIpRules } from "../../../src/rules/cluster-ip-rules.ts";
import { anAddress } from "../../kit/bindings.ts";
import { aRange } from "../../kit/ranges.ts";

describe("clusterIpRules()", () => {
	it("refuse ports of ClusterIPs, and drop what else is in a range of Services", () => {
		const clusterIps = {
			owned: ["10.96.0.10", "fd10:96::a"].map(anAddress),
			ranges: ["10.96.0.0/12", "fd10:96::/112"].map(aRange),
		};
		expect(clusterIpRules(clusterIps, "ipv4")).toEqual({
			"KUBE-CLUSTER-IPS": ["-A KUBE-CLUSTER-IPS -d 10.96.0.0/12 -j KUBE-UNUSED-CLUSTER-IPS"],
			"KUBE-UNUSED-CLUSTER-IPS": [
				"-A KUBE-UNUSED-CLUSTER-IPS -m addrtype --dst-type LOCAL -j RETURN",
				"-A KUBE-UNUSED-CLUSTER-IPS -d 10.96.0.10/32 -j KUBE-REFUSED-CLUSTER-IPS",
				"-A KUBE-UNUSED-CLUSTER-IPS -d 10.96.0.0/12 -j DROP",
			],
			"KUBE-REFUSED-CLUSTER-IPS": [
				"-A KUBE-REFUSED-CLUSTER-IPS -p tcp -j REJECT --reject-with tcp-reset",
				"-A KUBE-REFUSED-CLUSTER-IPS -j REJECT --reject-with icmp-port-unreachable",
			],
		});
		const ipv6 = clusterIpRules(clusterIps, "ipv6");
		expect(ipv6["KUBE-UNUSED-CLUSTER-IPS"].slice(1)).toEqual([
			"-A KUBE-UNUSED-CLUSTER-IPS -d fd10:96::a/128 -j KUBE-REFUSED-CLUSTER-IPS",
			"-A KUBE-UNUSED-CLUSTER-IPS -d fd10:96::/112 -j DROP",
		]);
		expect(ipv6["KUBE-REFUSED-CLUSTER-IPS"].at(-1)).toContain("icmp6-port-unreachable");
	});

	it("let flows to elsewhere pass few rules, without a known range of Services, too", () => {
		const owned = Array.from({ length: 1_000 }, (_, index) =>
			anAddress(`10.96.${Math.floor(index / 250)}.${index % 250}`),
		);
		const far = ["192.168.7.7", "fd10:96::1", "fd10:96::ffff:1"].map(anAddress);
		const gates = (family: "ipv4" | "ipv6") =>
			clusterIpRules({ owned: [...owned, ...far], ranges: [] }, family)["KUBE-CLUSTER-IPS"].map(
				(rule) => rule.split(" ")[3],
			);
		expect(gates("ipv4")).toEqual(["10.96.0.0/16", "192.168.0.0/16"]);
		expect(gates("ipv6")).toEqual(["fd10:96::/64"]);
	});

	it("are none where nothing is known", () => {
		const { length } = Object.values(clusterIpRules({ owned: [], ranges: [] }, "ipv4")).flat();
		expect(length).toBe(0);
	});
});
