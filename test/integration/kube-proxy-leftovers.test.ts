import { afterEach, describe, expect, test as it } from "vitest";
import { cleanupKubeProxy } from "../../src/rules/cleanup-kube-proxy.ts";
import type { Variant } from "../../src/rules/xtables.ts";
import { aBinding, wantedRules } from "../kit/bindings.ts";
import { DAEMON_PROGRAM } from "../kit/daemon-process.ts";
import { kubeProxyRules } from "../kit/kube-proxy-rules.ts";
import { labProblem } from "../kit/lab.ts";
import type { LabNamespace } from "../kit/lab-namespace.ts";
import { createRulesLab, never, type RulesLab, rulesLabProblem } from "../kit/rules-lab.ts";
import { createServiceLab, labService, type ServiceLab } from "../kit/service-lab.ts";

const V6 = {
	service: "fd10:96::a",
	endpoints: ["fd10:2:1::2", "fd10:2:2::2"],
	mask: 128,
} as const;

async function makeKubeProxyRules(node: LabNamespace, variant: Variant): Promise<void> {
	await node.exec(`iptables-${variant}-restore`, ["--noflush"], { input: kubeProxyRules() });
	await node.exec(`ip6tables-${variant}-restore`, ["--noflush"], { input: kubeProxyRules(V6) });
}

/** What kubeProxyRules() makes that is kubelet's or an administrator's. */
const OF_OTHERS = [
	":KUBE-FIREWALL -",
	":KUBE-IPTABLES-HINT -",
	":KUBE-KUBELET-CANARY -",
	":KUBE-MARK-DROP -",
	"-A INPUT -j KUBE-FIREWALL",
	"-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT",
	"-A OUTPUT -j KUBE-FIREWALL",
	"-A POSTROUTING -o eth9 -j MASQUERADE",
	"-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000",
];

/** Chains and rules without counters, and without what the program says. */
function essence(saved: string): readonly string[] {
	return saved
		.split("\n")
		.filter((line) => /^(?::|-A|\*)/.test(line))
		.map((line) => line.replace(/ \[\d+:\d+\]$/, ""));
}

describe.each(["nft", "legacy"] as const)("leftovers of kube-proxy in iptables-%s", (variant) => {
	describe.skipIf(rulesLabProblem(variant, "ipv6") !== undefined)("on a node", () => {
		let rules: RulesLab;
		afterEach(() => rules.lab.close());

		it("go on request, and everybody else's rules stay, ours too", async () => {
			rules = await createRulesLab(variant);
			const { node } = rules.lab;
			const keeper = await rules.keeper();
			await keeper.apply(wantedRules([aBinding(), aBinding({ addresses: ["fd96::10"] })]), never);
			const before = [essence(await rules.save()), essence(await rules.save("ipv6"))];
			await makeKubeProxyRules(node, variant);

			const report = await cleanupKubeProxy(rules.look);

			expect(report).toMatchObject({
				cleaned: [
					{ program: `iptables-${variant}`, chains: 15, jumps: 12 },
					{ program: `ip6tables-${variant}`, chains: 15, jumps: 12 },
				],
				kept: [],
				left: [],
				problems: [],
			});
			const after = [essence(await rules.save()), essence(await rules.save("ipv6"))];
			for (const [index, lines] of after.entries()) {
				expect(before[index]?.filter((line) => !lines.includes(line))).toEqual([]);
				expect(lines).toEqual(expect.arrayContaining(OF_OTHERS));
				const text = lines.join("\n");
				expect(text).not.toMatch(/KUBE-(SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|SVC|SEP|PROXY)/);
				expect(text).not.toMatch(/KUBE-(EXTERNAL-SERVICES|FORWARD)/);
			}
			expect((await keeper.verify(never)).families.map(({ result }) => result.state)).toEqual([
				"intact",
				"intact",
			]);
			expect((await cleanupKubeProxy(rules.look)).cleaned).toEqual([]);
		});

		it("stay as far as somebody else's rules lead there", async () => {
			rules = await createRulesLab(variant);
			await makeKubeProxyRules(rules.lab.node, variant);
			await rules.iptables("-t nat -N CNI-HOSTPORT-SETMARK");
			await rules.iptables("-t nat -A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ");
			await rules.iptables("-A FORWARD -s 10.0.0.0/8 -j KUBE-FORWARD");

			const { kept, problems } = await cleanupKubeProxy(rules.look);

			expect(kept).toEqual([expect.stringContaining("KUBE-MARK-MASQ and KUBE-POSTROUTING")]);
			expect(problems).toEqual([
				expect.stringMatching(
					/chain KUBE-FORWARD in table filter could not be deleted.*10\.0\.0\.0/,
				),
			]);
			const saved = await rules.save();
			expect(saved).toContain("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000");
			expect(saved).toContain('"kubernetes postrouting rules" -j KUBE-POSTROUTING');
			expect(saved).toContain("-A FORWARD -s 10.0.0.0/8 -j KUBE-FORWARD");
			expect(saved).not.toMatch(/KUBE-(SERVICES|NODEPORTS|SVC|SEP|PROXY)/);
			expect(saved).not.toContain("-A KUBE-FORWARD");
		});
	});
});

describe.skipIf(labProblem() !== undefined)("a kube-proxy of another mode on the node", () => {
	let services: ServiceLab;
	afterEach(() => services.close());

	const command = async (...args: string[]) =>
		await services.lab.node.exec(process.execPath, [DAEMON_PROGRAM, ...args], { mayFail: true });
	const check = async (...flags: string[]) =>
		await command("check", `--manifests=${services.folder}`, "--hostname-override=node1", ...flags);

	it("is seen by run and check, and is no fault beside --service-proxy-name", async () => {
		services = await createServiceLab({ endpoints: 0 });
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [] }));
		const { node } = services.lab;
		await makeKubeProxyRules(node, "nft");
		await node.exec("nft", ["add", "table", "ip6", "kube-proxy"]);
		await node.ip("link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "kube-ipvs1");

		const found = [
			"chain KUBE-NODEPORTS (iptables-nft)",
			"chain KUBE-SERVICES (iptables-nft)",
			"chain KUBE-NODEPORTS (ip6tables-nft)",
			"chain KUBE-SERVICES (ip6tables-nft)",
			"nft table ip6 kube-proxy",
			"interface kube-ipvs0",
		];
		const daemon = await services.start();
		const warnings = daemon.logs.filter(({ msg }) => msg.startsWith("a kube-proxy is or was"));
		expect(warnings).toEqual([expect.objectContaining({ level: "warn", found })]);
		await daemon.stop();
		const { stdout } = await check();
		expect(stdout).toContain(`! a kube-proxy is or was active here: ${found.join(", ")}\n`);
		expect(stdout).toContain("kube-userproxy cleanup --kube-proxy");

		const beside = await services.start(["--service-proxy-name=mine"]);
		expect(beside.logs.filter(({ msg }) => msg.startsWith("a kube-proxy"))).toEqual([]);
		expect((await check("--service-proxy-name=mine")).stdout).toContain(
			'✓ a kube-proxy is here, and leaves the Services of "mine" alone\n',
		);
	});

	it("is cleaned up after by the command, while the daemon runs", async () => {
		services = await createServiceLab({ endpoints: 0 });
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [] }));
		const { node } = services.lab;
		const daemon = await services.start();
		await makeKubeProxyRules(node, "legacy");
		await node.exec("nft", ["add", "table", "ip", "kube-proxy"]);

		const { exitCode, stdout, stderr } = await command("cleanup", "--kube-proxy");

		expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
		expect(stdout).toBe(
			"Removed kube-proxy's chains (15) and jumps (12) of iptables-legacy\n" +
				"Removed kube-proxy's chains (15) and jumps (12) of ip6tables-legacy\n" +
				"Removed the nftables table ip kube-proxy\n" +
				"A kube-proxy that still runs puts all of it back: stop it first\n",
		);
		expect((await node.exec("nft", ["list", "tables"])).stdout).not.toContain("kube-proxy");
		expect(await command("cleanup", "--kube-proxy")).toMatchObject({
			exitCode: 0,
			stdout: "Nothing to remove: no rule of kube-proxy is there\n",
		});
		daemon.signal("SIGHUP");
		await daemon.waitForLog(({ msg }) => msg === "configuration read again");
		expect(daemon.logs.filter(({ msg }) => msg.includes("had been changed"))).toEqual([]);

		await node.ip("link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "kube-ipvs1");
		expect(await command("cleanup", "--kube-proxy")).toMatchObject({
			exitCode: 1,
			stdout: expect.stringContaining("to remove: ip link delete kube-ipvs0\n"),
		});
	});
});
