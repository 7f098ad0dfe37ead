import { describe, expect, test as it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { findOtherProxies } from "../../../src/rules/other-proxies.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import type { Variant, XtablesTools } from "../../../src/rules/xtables.ts";
import type { IpFamily } from "../../../src/services/address.ts";

const { signal } = new AbortController();

function tools(family: IpFamily, variant: Variant): XtablesTools {
	const prefix = `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}`;
	return {
		family,
		variant,
		version: "1.8.9",
		save: `${prefix}-save`,
		restore: `${prefix}-restore`,
	};
}

/** A host whose programs print these lines; others are not installed. */
function lookAt(output: Readonly<Record<string, string>>, files: Readonly<Record<string, string>>) {
	const ran: string[] = [];
	const runner: CommandRunner = {
		run(file, args, options) {
			const command = [file, ...args].join(" ");
			ran.push(command);
			const text = output[command];
			if (text === undefined) {
				return Promise.reject(new CommandError("COMMAND_NOT_INSTALLED", { file }));
			}
			for (const line of text.split("\n")) options.onLine?.(line);
			return Promise.resolve({ stdout: "", stderr: "" });
		},
	};
	const readTextFile = (path: string) => Promise.resolve(files[path]);
	return { look: { runner, signal, readTextFile }, ran };
}

const nothing = lookAt({}, {});

describe("findOtherProxies()", () => {
	it("names each chain with the program that shows it, of both variants and families", async () => {
		const kubeProxy = parseSavedRules("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\n");
		const cilium = parseSavedRules("*nat\n:CILIUM_POST_nat - [0:0]\n");
		const found = [
			{ tools: tools("ipv4", "legacy"), saved: kubeProxy },
			{ tools: tools("ipv4", "nft"), saved: new Error("no") },
			{ tools: tools("ipv6", "nft"), saved: cilium },
		];
		expect(await findOtherProxies({ found }, nothing.look)).toEqual([
			{ proxy: "kube-proxy", what: "chain KUBE-SERVICES (iptables-legacy)" },
			{ proxy: "kube-proxy", what: "chain KUBE-NODEPORTS (iptables-legacy)" },
			{ proxy: "cilium", what: "chain CILIUM_POST_nat (ip6tables-nft)" },
		]);
	});

	it("does not take kubelet's chains, ours, or those of other tables for a proxy's", async () => {
		const saved = parseSavedRules(
			"*nat\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-PORTALS-HOST - [0:0]\n" +
				":KUBE-KUBELET-CANARY - [0:0]\n*filter\n:KUBE-SERVICES - [0:0]\n:KUBE-FIREWALL - [0:0]\n",
		);
		const found = [{ tools: tools("ipv4", "nft"), saved }];
		expect(await findOtherProxies({ found }, nothing.look)).toEqual([]);
	});

	it("finds the nftables mode by its tables, and the ipvs mode by its interface and sets", async () => {
		const { look } = lookAt(
			{
				"nft list tables": "table ip filter\ntable ip kube-proxy\ntable ip6 kube-proxy\n",
				"ipset list -name": "mine\nKUBE-CLUSTER-IP\nKUBE-NODE-PORT-TCP\n",
			},
			{
				"/proc/net/dev": "Inter-|   Receive\n    lo:  0 0\nkube-ipvs0:       0 0\n",
				"/sys/module/ip_set/parameters/max_sets": "0\n",
			},
		);
		expect((await findOtherProxies({ found: [] }, look)).map(({ what }) => what)).toEqual([
			"nft table ip kube-proxy",
			"nft table ip6 kube-proxy",
			"interface kube-ipvs0",
			"ipset KUBE-CLUSTER-IP and 1 more",
		]);
	});

	it("does not ask for sets where that would load the module", async () => {
		const { look, ran } = lookAt({ "ipset list -name": "KUBE-CLUSTER-IP\n" }, {});
		expect(await findOtherProxies({ found: [] }, look)).toEqual([]);
		expect(ran).toEqual(["nft list tables"]);
	});
});
