import { describe, expect, test as it } from "vitest";
import { cleanupKubeProxy } from "../../../src/rules/cleanup-kube-proxy.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { kubeProxyRules } from "../../kit/kube-proxy-rules.ts";

const { signal } = new AbortController();

/** A host with iptables-nft and nft; files as given, empty ones where not. */
class FakeHost {
	readonly xtables = new FakeXtables();
	nftTables: string[] | undefined = [];
	readonly files: Record<string, string> = { "/proc/net/if_inet6": "" };
	sets: readonly string[] = [];

	cleanup() {
		const runner: CommandRunner = {
			run: (file, args, options) => {
				const lines = this.#answer(file, args);
				if (lines === undefined) return this.xtables.run(file, args, options);
				for (const line of lines) options.onLine?.(line);
				return Promise.resolve({ stdout: "", stderr: "" });
			},
		};
		const readTextFile = (path: string) => Promise.resolve(this.files[path]);
		return cleanupKubeProxy({ runner, signal, readTextFile });
	}

	#answer(file: string, args: readonly string[]): readonly string[] | undefined {
		if (file === "ipset") return this.sets;
		if (file !== "nft" || this.nftTables === undefined) return undefined;
		if (args[0] === "list") return this.nftTables.map((table) => `table ${table}`);
		this.nftTables = this.nftTables.filter((table) => table !== args.slice(2).join(" "));
		return [];
	}
}

const NOTHING = { cleaned: [], nftTables: [], kept: [], left: [], unseen: [], problems: [] };

describe("cleanupKubeProxy()", () => {
	it("takes away all that is kube-proxy's, and leaves kubelet's and the administrator's", async () => {
		const host = new FakeHost();
		host.xtables.ipv4.restore(kubeProxyRules());

		expect(await host.cleanup()).toEqual({
			...NOTHING,
			cleaned: [{ program: "iptables-nft", chains: 15, jumps: 12 }],
		});

		const saved = host.xtables.ipv4.save();
		const kubeChains = [...saved.matchAll(/^:(KUBE-\S+)/gm)].map(([, name]) => name);
		expect(new Set(kubeChains)).toEqual(
			new Set(["KUBE-FIREWALL", "KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-MARK-DROP"]),
		);
		expect(saved).toContain("-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT");
		expect(saved).toContain("-A INPUT -j KUBE-FIREWALL");
		expect(saved).toContain("-A POSTROUTING -o eth9 -j MASQUERADE");
		expect(await host.cleanup()).toEqual(NOTHING);
	});

	it("leaves marking and masquerading whole where somebody else marks", async () => {
		const host = new FakeHost();
		host.xtables.ipv4.restore(kubeProxyRules());
		host.xtables.ipv4.restore(
			"*nat\n:CNI-HOSTPORT-SETMARK - [0:0]\n-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ\nCOMMIT\n",
		);

		const report = await host.cleanup();

		expect(report.kept).toEqual([
			"iptables-nft: KUBE-MARK-MASQ and KUBE-POSTROUTING in table nat: a rule of somebody else needs them (-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ)",
		]);
		expect(report.problems).toEqual([]);
		const saved = host.xtables.ipv4.save();
		expect(saved).toContain("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000");
		expect(saved).toContain('"kubernetes postrouting rules" -j KUBE-POSTROUTING');
		expect(saved).toContain('requiring SNAT" -j MASQUERADE');
		expect(saved).not.toContain("KUBE-SERVICES");
		expect((await host.cleanup()).cleaned).toEqual([]);
	});

	it("empties a chain that somebody else's rule leads to, and says what keeps it", async () => {
		const host = new FakeHost();
		host.xtables.ipv4.restore(kubeProxyRules());
		host.xtables.ipv4.chains("filter").get("FORWARD")?.push("-s 10.0.0.0/8 -j KUBE-FORWARD");

		const { problems, cleaned } = await host.cleanup();

		expect(cleaned).toEqual([{ program: "iptables-nft", chains: 14, jumps: 12 }]);
		expect(problems).toEqual([
			"iptables-nft: chain KUBE-FORWARD in table filter could not be deleted: a rule of somebody else leads to it (-A FORWARD -s 10.0.0.0/8 -j KUBE-FORWARD)",
		]);
		expect(host.xtables.ipv4.chains("filter").get("KUBE-FORWARD")).toEqual([]);
		expect(host.xtables.ipv4.save()).not.toContain("KUBE-SERVICES");
	});

	it("goes on with the other family when one fails", async () => {
		const host = new FakeHost();
		host.xtables.ipv4.restore(kubeProxyRules());
		host.xtables.ipv6.restore(kubeProxyRules());
		host.xtables.failBefore = (command) =>
			command.startsWith("iptables-nft-restore --noflush")
				? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
				: undefined;

		const { cleaned, problems } = await host.cleanup();

		expect(cleaned.map(({ program }) => program)).toEqual(["ip6tables-nft"]);
		expect(problems).toEqual([expect.stringMatching(/^iptables-nft: .*xtables lock/)]);
	});

	it("deletes the tables of the nftables mode and no others", async () => {
		const host = new FakeHost();
		host.nftTables = ["ip nat", "ip kube-proxy", "ip6 kube-proxy", "inet kube-proxy"];
		expect(await host.cleanup()).toEqual({
			...NOTHING,
			nftTables: ["ip kube-proxy", "ip6 kube-proxy"],
		});
		expect(host.nftTables).toEqual(["ip nat", "inet kube-proxy"]);
	});

	it("says that without nft its tables were not looked for", async () => {
		const host = new FakeHost();
		host.nftTables = undefined;
		expect(await host.cleanup()).toEqual({
			...NOTHING,
			unseen: ["its nftables tables (nft is not installed)"],
		});
	});

	it("says what is left of the ipvs mode, and the commands", async () => {
		const host = new FakeHost();
		host.files["/proc/net/dev"] = "    lo: 0\nkube-ipvs0: 0\n";
		host.files["/sys/module/ip_set/parameters/max_sets"] = "0\n";
		host.sets = ["KUBE-CLUSTER-IP", "mine"];
		const { left } = await host.cleanup();
		expect(left.map(({ what, command }) => `${what}: ${command}`)).toEqual([
			"the virtual servers of IPVS (those of others would go too): ipvsadm --clear",
			"the interface kube-ipvs0: ip link delete kube-ipvs0",
			'its ipsets (1): for set in $(ipset list -name | grep "^KUBE-"); do ipset destroy "$set"; done',
		]);
	});
});
