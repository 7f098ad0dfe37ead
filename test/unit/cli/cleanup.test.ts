import { describe, expect, test as it } from "vitest";
import type { CleanupReport } from "../../../src/rules/cleanup.ts";
import type { KubeProxyCleanupReport } from "../../../src/rules/cleanup-kube-proxy.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import { fakeHost, run } from "./fake-host.ts";

async function cleanup(report: CleanupReport) {
	return await run("cleanup", fakeHost({ cleanup: () => Promise.resolve(report) }));
}

it("cleanup says what it removed, per program", async () => {
	const report: CleanupReport = {
		cleaned: [
			{ family: "ipv4", variant: "nft" },
			{ family: "ipv6", variant: "legacy" },
		],
		problems: [],
	};
	expect(await cleanup(report)).toEqual({
		status: 0,
		stdout:
			"Removed the chains and jumps of iptables-nft (nat and filter tables)\n" +
			"Removed the chains and jumps of ip6tables-legacy (nat and filter tables)\n",
		stderr: "",
	});
});

it("cleanup is fine with nothing to remove", async () => {
	expect(await cleanup({ cleaned: [], problems: [] })).toMatchObject({
		status: 0,
		stdout: "Nothing to remove: no rule or chain of kube-userproxy is there\n",
	});
});

it("cleanup says that a daemon which runs puts its rules back", async () => {
	const cleaned = [{ family: "ipv4", variant: "nft" }] as const;
	const doors = {
		runningDaemon: () => Promise.resolve(4711),
		cleanup: () => Promise.resolve({ cleaned, problems: [] }),
	};
	expect(await run("cleanup", fakeHost(doors))).toMatchObject({
		status: 0,
		stderr: expect.stringMatching(
			/^kube-userproxy: cleanup: warning: .*\(pid 4711\).* puts its rules back/,
		),
	});
});

it("cleanup fails where something stays", async () => {
	expect(await cleanup({ cleaned: [], problems: ["ipv4 (nft): a chain is held"] })).toEqual({
		status: 1,
		stdout: "",
		stderr: "kube-userproxy: cleanup: ipv4 (nft): a chain is held\n",
	});
});

it("cleanup without permission says what it needs", async () => {
	const error = new CommandError("COMMAND_NOT_PERMITTED", { file: "iptables-save" });
	expect(await run("cleanup", fakeHost({ cleanup: () => Promise.reject(error) }))).toEqual({
		status: 1,
		stdout: "",
		stderr:
			"kube-userproxy: cleanup: needs root, or CAP_NET_ADMIN and CAP_NET_RAW, to change packet rules\n",
	});
});

it("cleanup shows what a command said, and does not let the terminal obey", async () => {
	const { stderr } = await cleanup({ cleaned: [], problems: ["ipv4 (nft): \u001b[2J"] });
	expect(stderr).toBe("kube-userproxy: cleanup: ipv4 (nft): \\u001b[2J\n");
});

describe("cleanup --kube-proxy", () => {
	const nothing: KubeProxyCleanupReport = {
		cleaned: [],
		nftTables: [],
		kept: [],
		left: [],
		unseen: [],
		problems: [],
	};
	const cleanupKubeProxy = async (report: Partial<KubeProxyCleanupReport>) =>
		await run(
			"cleanup --kube-proxy",
			fakeHost({
				cleanup: () => Promise.reject(new Error("ours is not to be touched")),
				cleanupKubeProxy: () => Promise.resolve({ ...nothing, ...report }),
			}),
		);

	it("says what it removed, and that a kube-proxy that runs would put it back", async () => {
		const report = {
			cleaned: [{ program: "ip6tables-legacy", chains: 20, jumps: 9 }],
			nftTables: ["ip kube-proxy"],
		};
		expect(await cleanupKubeProxy(report)).toEqual({
			status: 0,
			stdout:
				"Removed kube-proxy's chains (20) and jumps (9) of ip6tables-legacy\n" +
				"Removed the nftables table ip kube-proxy\n" +
				"A kube-proxy that still runs puts all of it back: stop it first\n",
			stderr: "",
		});
	});

	it("is fine with nothing to remove", async () => {
		expect(await cleanupKubeProxy({})).toEqual({
			status: 0,
			stdout: "Nothing to remove: no rule of kube-proxy is there\n",
			stderr: "",
		});
	});

	it("fails while something is left, and says how to remove it", async () => {
		const left = [{ what: "the interface kube-ipvs0", command: "ip link delete kube-ipvs0" }];
		expect(await cleanupKubeProxy({ left })).toEqual({
			status: 1,
			stdout: "Left: the interface kube-ipvs0; to remove: ip link delete kube-ipvs0\n",
			stderr: "",
		});
		const problems = ["iptables-nft: chain KUBE-FORWARD in table filter could not be deleted"];
		expect(await cleanupKubeProxy({ problems })).toEqual({
			status: 1,
			stdout: "",
			stderr: `kube-userproxy: cleanup: ${problems[0]}\n`,
		});
	});

	it("says what it kept for others and what it could not see, which is no failure", async () => {
		const report = { kept: ["iptables-nft: KUBE-MARK-MASQ in table nat"], unseen: ["its tables"] };
		expect(await cleanupKubeProxy(report)).toMatchObject({
			status: 0,
			stdout:
				"Kept, iptables-nft: KUBE-MARK-MASQ in table nat\nNot looked for: its tables\nNothing to remove: no rule of kube-proxy is there\n",
		});
	});
});
