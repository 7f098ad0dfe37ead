import { expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { findTools } from "../../../src/rules/find-tools.ts";

const { signal } = new AbortController();
const files: Readonly<Record<string, string>> = { "/proc/net/if_inet6": "" };

/** A host on which exactly these commands answer. */
function aHost(answers: Readonly<Record<string, string | Error>>, more = files) {
	const ran: string[] = [];
	const runner: CommandRunner = {
		async run(file, args, { onLine }) {
			await Promise.resolve();
			const command = [file, ...args].join(" ");
			ran.push(command);
			const answer = answers[command];
			if (answer instanceof Error) throw answer;
			if (answer === undefined) throw new CommandError("COMMAND_NOT_INSTALLED", { file });
			for (const line of answer.split("\n")) onLine?.(line);
			return { stdout: answer, stderr: "" };
		},
	};
	const readTextFile = (path: string) => Promise.resolve(more[path]);
	return { look: { runner, signal, readTextFile }, ran };
}

const nft4 = {
	"iptables --version": "iptables v1.8.9 (nf_tables)",
	"iptables-nft-restore --version": "iptables-restore v1.8.9 (nf_tables)",
	"iptables-nft-save": "*nat\n:KUBE-PORTALS-HOST - [0:0]\nCOMMIT\n",
};

it("findTools() finds both variants by name, and does not touch legacy tables that nobody uses (classic 9.7.3)", async () => {
	const { look, ran } = aHost({
		...nft4,
		"iptables-legacy-restore --version": "iptables-restore v1.8.9 (legacy)",
		"iptables-legacy-save": new Error("must not be called"),
	});

	const { found, plainVariant, missing } = await findTools(look);

	expect(found.map(({ tools }) => tools)).toEqual([
		{
			family: "ipv4",
			variant: "nft",
			version: "1.8.9",
			save: "iptables-nft-save",
			restore: "iptables-nft-restore",
		},
		{
			family: "ipv4",
			variant: "legacy",
			version: "1.8.9",
			save: "iptables-legacy-save",
			restore: "iptables-legacy-restore",
		},
	]);
	expect(ran).not.toContain("iptables-legacy-save");
	expect(plainVariant).toBe("nft");
	expect(missing).toEqual(new Map([["ipv6", "ip6tables is not installed"]]));
});

it("findTools() reads legacy tables that are in use", async () => {
	const { look } = aHost(
		{
			"iptables-legacy-restore --version": "iptables-restore v1.8.9 (legacy)",
			"iptables-legacy-save": "*filter\n-A INPUT -j DROP\nCOMMIT\n",
		},
		{ ...files, "/proc/net/ip_tables_names": "filter\n" },
	);

	const { found } = await findTools(look);

	expect(found).toMatchObject([{ saved: { foreignRuleCount: 1 } }]);
});

it.each([
	["iptables v1.8.7 (nf_tables)", "nft", "1.8.7"],
	["iptables v1.8.7 (legacy)", "legacy", "1.8.7"],
	["iptables v1.6.1", "legacy", "1.6.1"],
])(
	"findTools() takes the plain programs where there are no others: %s",
	async (text, variant, version) => {
		const { look } = aHost({
			"iptables --version": text,
			"iptables-save": "",
			"iptables-save -t nat": "",
		});

		const { found } = await findTools(look);

		expect(found).toMatchObject([
			{ tools: { variant, version, save: "iptables-save", restore: "iptables-restore" } },
		]);
	},
);

it("findTools() finds out that the kernel of a legacy host does not have legacy any more", async () => {
	const failure = new CommandError("COMMAND_NO_KERNEL_SUPPORT", { file: "iptables-save" });
	const { look } = aHost({
		...nft4,
		"iptables --version": "iptables v1.8.9 (legacy)",
		"iptables-save -t nat": failure,
	});

	const { found } = await findTools(look);

	expect(found).toMatchObject([
		{ tools: { variant: "nft" } },
		{ tools: { variant: "legacy" }, saved: failure },
	]);
});

it("findTools() leaves IPv6 alone where the kernel has none", async () => {
	const { look, ran } = aHost(nft4, {});

	const { missing } = await findTools(look);

	expect(missing.get("ipv6")).toBe("the kernel has no IPv6");
	expect(ran.filter((command) => command.startsWith("ip6tables"))).toEqual([]);
});

it("findTools() keeps why a variant cannot be used", async () => {
	const failure = new CommandError("COMMAND_NO_KERNEL_SUPPORT", { file: "iptables-nft-save" });
	const { look } = aHost({ ...nft4, "iptables-nft-save": failure });

	const { found } = await findTools(look);

	expect(found).toMatchObject([{ saved: failure }]);
});

it("findTools() fails at once without permission (case 36f)", async () => {
	const failure = new CommandError("COMMAND_NOT_PERMITTED", { file: "iptables-nft-save" });
	const { look } = aHost({ ...nft4, "iptables-nft-save": failure });

	await expect(findTools(look)).rejects.toBe(failure);
});
