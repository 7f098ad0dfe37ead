import { expect, it } from "vitest";
import { CommandError, classifyFailure } from "../../../src/rules/command-error.ts";

// Texts as iptables 1.8.9, conntrack 1.4.7 and older versions print them with LC_ALL=C.
it.each([
	[
		"Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.",
		"COMMAND_LOCK_HELD",
	],
	[
		"Another app is currently holding the xtables lock; still 9s 0us time ahead to have a chance to grab the lock...",
		"COMMAND_LOCK_HELD",
	],
	[
		"iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)",
		"COMMAND_NOT_PERMITTED",
	],
	["Fatal: can't open lock file /run/xtables.lock: Permission denied", "COMMAND_NOT_PERMITTED"],
	[
		"conntrack v1.4.7 (conntrack-tools): Operation failed: sorry, you must be root or get CAP_NET_ADMIN capability to do this",
		"COMMAND_NOT_PERMITTED",
	],
	[
		"iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)",
		"COMMAND_NO_KERNEL_SUPPORT",
	],
	[
		"iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1",
		"COMMAND_NO_KERNEL_SUPPORT",
	],
	[
		"iptables-nft-restore: Failed to initialize nft: Protocol not supported",
		"COMMAND_NO_KERNEL_SUPPORT",
	],
	[
		"iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Invalid argument",
		"COMMAND_NO_KERNEL_SUPPORT",
	],
	["iptables-restore: line 3 failed", "COMMAND_FAILED"],
	["", "COMMAND_FAILED"],
])("classifyFailure() of %j", (stderr, code) => {
	expect(classifyFailure(stderr)).toBe(code);
});

it("the warning about the other variant does not hide the reason (case 36g)", () => {
	const error = new CommandError("COMMAND_FAILED", {
		file: "iptables-nft-restore",
		exitStatus: 2,
		stderr:
			"# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\niptables-restore: line 3 failed\n",
	});

	expect(error.message).toBe(
		"Cannot run iptables-nft-restore: exit status 2: iptables-restore: line 3 failed",
	);
});

it("a long error output is cut", () => {
	const error = new CommandError("COMMAND_FAILED", { file: "x", stderr: "y".repeat(9_000) });

	expect(error.stderr).toHaveLength(2_000);
});
