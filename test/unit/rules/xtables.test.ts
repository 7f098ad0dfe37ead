import { expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { readSavedRules, restoreRules, type XtablesTools } from "../../../src/rules/xtables.ts";

const { signal } = new AbortController();
const tools: XtablesTools = {
	family: "ipv4",
	variant: "nft",
	version: "1.8.9",
	save: "iptables-nft-save",
	restore: "iptables-nft-restore",
};
const text = "*nat\n:KUBE-PORTALS-HOST - [0:0]\n-A KUBE-PORTALS-HOST -j NO-SUCH\nCOMMIT\n";

function printing(saved: string): CommandRunner {
	return {
		run(_file, _args, { onLine }) {
			for (const line of saved.split("\n")) onLine?.(line);
			return Promise.resolve({ stdout: "", stderr: "" });
		},
	};
}

function failing(error: Error): CommandRunner {
	return { run: () => Promise.reject(error) };
}

it("readSavedRules() refuses a listing that leaves rules of our tables out", async () => {
	const saved = "# Table `nat' is incompatible, use 'nft' tool.\n";

	await expect(readSavedRules(printing(saved), tools, signal)).rejects.toMatchObject({
		code: "TABLES_UNREADABLE",
		message: expect.stringContaining("table nat holds native nftables rules"),
	});
});

it.each([
	["iptables-nft-restore: line 3 failed: No chain/target/match by that name."],
	['iptables-restore v1.8.9 (legacy): unknown option "--x"\nError occurred at line: 3\nTry ...'],
	[
		"iptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory)",
	],
])("restoreRules() names the line of ours that was refused: %j", async (stderr) => {
	const error = new CommandError("COMMAND_FAILED", { file: tools.restore, exitStatus: 1, stderr });

	await expect(restoreRules(failing(error), tools, text, signal)).rejects.toMatchObject({
		code: "RULES_REFUSED",
		line: "-A KUBE-PORTALS-HOST -j NO-SUCH",
	});
});

it("restoreRules() passes other failures on, and runs nothing for an empty text (classic 9.7.3)", async () => {
	const error = new CommandError("COMMAND_LOCK_HELD", { file: tools.restore });

	await expect(restoreRules(failing(error), tools, text, signal)).rejects.toBe(error);
	await restoreRules(failing(error), tools, "", signal);
});
