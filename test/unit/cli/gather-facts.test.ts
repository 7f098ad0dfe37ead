import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test as it } from "vitest";
import {
	gatherFacts,
	parseCapabilities,
	parseDescriptorLimit,
} from "../../../src/cli/gather-facts.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { FakeSettingFiles } from "../../kit/setting-files.ts";
import { configOf, inputs } from "../config/inputs.ts";

const NFT = "iptables v1.8.9 (nf_tables)\n";

/** Answers by "file first-argument"; what is not there is not installed. */
function runnerOf(answers: Readonly<Record<string, string | CommandError>>) {
	const calls: { readonly line: string; readonly input: string | undefined }[] = [];
	const runner: CommandRunner = {
		run(file, args, options) {
			const line = [file, ...args].join(" ");
			calls.push({ line, input: options.input });
			const answer =
				Object.entries(answers).find(([start]) => line.startsWith(start))?.[1] ??
				new CommandError("COMMAND_NOT_INSTALLED", { file });
			if (typeof answer !== "string") return Promise.reject(answer);
			if (options.onLine === undefined) return Promise.resolve({ stdout: answer, stderr: "" });
			for (const each of answer.split("\n").slice(0, -1)) options.onLine(each);
			return Promise.resolve({ stdout: "", stderr: "" });
		},
	};
	return { runner, calls };
}

function filesOf(files: Readonly<Record<string, string>>) {
	return (path: string) => Promise.resolve(files[path]);
}

async function gather(
	answers: Readonly<Record<string, string | CommandError>>,
	files: Readonly<Record<string, string>> = {},
	flags: Parameters<typeof inputs>[0] = {},
) {
	const { runner, calls } = runnerOf(answers);
	const quiet = { "healthz-bind-address": [""], "metrics-bind-address": [""] };
	const facts = await gatherFacts(
		configOf(inputs({ manifests: ["/nonexistent"], ...quiet, ...flags })),
		{
			runner,
			readTextFile: filesOf(files),
			settings: new FakeSettingFiles(),
			cpuCount: 2,
			nodeVersion: "26.0.0",
			platform: "linux",
			env: {},
		},
		AbortSignal.timeout(10_000),
	);
	return { facts, calls };
}

it("a host without anything has nothing, and is told so without a throw", async () => {
	const { facts } = await gather({});
	expect(facts).toMatchObject({
		nodeVersion: "26.0.0",
		capabilities: undefined,
		descriptorLimit: 1024,
		tables: { state: "unusable", isPermission: false },
		conntrack: "missing",
		trials: [],
		otherProxies: [],
		ipvs: "absent",
		sources: [{ isComplete: false, problems: ["/nonexistent: is not there"] }],
	});
});

describe("trials of rules", () => {
	const base = {
		"iptables --version": NFT,
		"iptables-nft-restore --version": NFT,
		"iptables-nft-save": "*nat\nCOMMIT\n",
	};

	it("are made in a namespace of their own where that is allowed", async () => {
		const { facts, calls } = await gather({ ...base, unshare: "" });
		expect(facts.trials).toEqual([{ family: "ipv4", how: "namespace", problem: undefined }]);
		const trial = calls.find(({ line }) => line.includes("--noflush"));
		expect(trial?.line).toBe("unshare --net iptables-nft-restore --noflush --wait 5");
		for (const part of ["REDIRECT", "DNAT", "REJECT", "multiport", "conntrack", "addrtype"]) {
			expect(trial?.input).toContain(part);
		}
	});

	it("change nothing where it is not: the text is only read", async () => {
		const { facts, calls } = await gather({ ...base, "iptables-nft-restore --noflush": "" });
		expect(facts.trials).toEqual([{ family: "ipv4", how: "text", problem: undefined }]);
		const lines = calls.map(({ line }) => line).filter((line) => line.includes("--noflush"));
		expect(lines).toEqual(["iptables-nft-restore --noflush --wait 5 --test"]);
	});

	it("tell what the kernel said", async () => {
		const failure = new CommandError("COMMAND_FAILED", { file: "unshare", stderr: "no REDIRECT" });
		const { facts } = await gather({
			...base,
			"unshare --net true": "",
			"unshare --net iptables": failure,
		});
		expect(facts.trials[0]?.problem).toContain("no REDIRECT");
	});

	it("are not made with --rules none", async () => {
		const { facts } = await gather({ ...base, unshare: "" }, {}, { rules: ["none"] });
		expect(facts.trials).toEqual([]);
	});
});

it("without permission says so", async () => {
	const denied = new CommandError("COMMAND_NOT_PERMITTED", { file: "iptables-nft-save" });
	const { facts } = await gather({
		"iptables --version": NFT,
		"iptables-nft-restore --version": NFT,
		"iptables-nft-save": denied,
	});
	expect(facts.tables).toEqual({
		state: "unusable",
		reason: "they cannot be read without root",
		isPermission: true,
	});
});

it("finds traces of other proxies: chains, nft tables, the IPVS interface", async () => {
	const { facts } = await gather(
		{
			"iptables --version": NFT,
			"iptables-nft-restore --version": NFT,
			"iptables-nft-save": "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-PORTALS-HOST - [0:0]\nCOMMIT\n",
			"nft list tables": "table ip kube-proxy\ntable ip nat\n",
		},
		{ "/proc/net/dev": "    lo: 0 0\nkube-ipvs0: 0 0\n" },
	);
	expect(facts.otherProxies.map(({ what }) => what)).toEqual([
		"chain KUBE-SERVICES (iptables-nft)",
		"nft table ip kube-proxy",
		"interface kube-ipvs0",
	]);
});

it("looks at the settings of connection tracking that are wanted", async () => {
	const { facts } = await gather({}, {}, { "conntrack-max-per-core": ["0"] });
	expect(facts.conntrackSettings.map(({ setting, state }) => [setting.name, state])).toEqual([
		["nf_conntrack_tcp_timeout_established", "to-write"],
		["nf_conntrack_tcp_timeout_close_wait", "to-write"],
	]);
});

it.each([
	[{}, "absent"],
	[{ "/proc/net/ip_vs": "IP Virtual Server version 1.2.1\n" }, "loaded"],
	[{ "/proc/net/ip_vs": "IP Virtual Server\nTCP  0A600001:0050 rr\n" }, "in use"],
])("IPVS of %j is %s", async (files, expected) => {
	expect((await gather({}, files)).facts.ipvs).toBe(expected);
});

it("a listening address that is taken is found", async () => {
	const server = createServer();
	await new Promise<void>((resolve) => {
		server.listen(0, "127.0.0.1", resolve);
	});
	const { port } = server.address() as AddressInfo;
	const address = `127.0.0.1:${port}`;
	const { facts } = await gather({}, {}, { "metrics-bind-address": [address] });
	server.close();
	expect(facts.listens).toEqual([{ flag: "--metrics-bind-address", address, code: "EADDRINUSE" }]);
});

it("parseCapabilities() reads the effective mask", () => {
	expect(parseCapabilities("Name:\tnode\nCapPrm:\t0\nCapEff:\t0000000000003000\n")).toBe(0x3000n);
	expect(parseCapabilities("CapEff:\tzz\n")).toBeUndefined();
});

it.each([
	["Max open files            1024                 1048576              files\n", 1_048_576],
	["Max open files            1024                 unlimited            files\n", 1_048_576],
	["", 1024],
])("parseDescriptorLimit(%j) is %d", (text, limit) => {
	expect(parseDescriptorLimit(text)).toBe(limit);
});
