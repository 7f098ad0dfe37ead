import { expect, test as it } from "vitest";
import { tellOtherProxies } from "../../../src/daemon/tell-other-proxies.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { HostTools } from "../../../src/rules/find-tools.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import { aCapturedLog } from "../observe/captured-log.ts";

const tools = {
	family: "ipv4",
	variant: "nft",
	version: "1.8.9",
	save: "iptables-nft-save",
	restore: "iptables-nft-restore",
} as const;

const look = {
	runner: { run: () => Promise.reject(new CommandError("COMMAND_NOT_INSTALLED", { file: "x" })) },
	signal: new AbortController().signal,
	readTextFile: () => Promise.resolve(undefined),
};

function hostWith(saved: string): HostTools {
	const found = [{ tools, saved: parseSavedRules(saved) }];
	return { found, plainVariant: "nft", missing: new Map() };
}

it("tellOtherProxies() warns in one line of a kube-proxy", async () => {
	const { log, lines } = aCapturedLog();
	await tellOtherProxies(hostWith("*nat\n:KUBE-SERVICES - [0:0]\n"), look, log);
	expect(lines).toEqual([
		{
			level: "warn",
			message: "a kube-proxy is or was active on this node",
			fields: {
				found: ["chain KUBE-SERVICES (iptables-nft)"],
				remedy: expect.stringContaining("--service-proxy-name"),
			},
		},
	]);
});

it("tellOtherProxies() has nothing to say of a bare host, or of Cilium as the Pods' network", async () => {
	const { log, lines } = aCapturedLog();
	await tellOtherProxies(hostWith(""), look, log);
	await tellOtherProxies(hostWith("*nat\n:CILIUM_POST_nat - [0:0]\n"), look, log);
	expect(lines).toEqual([]);
});
