import { JUMPS, type Jump } from "./chains.ts";
import type { CommandRunner } from "./command-runner.ts";
import { jumpDeletionText, unseenRemovalText } from "./restore-text.ts";
import { RulesRefusedError, restoreRules, type XtablesTools } from "./xtables.ts";

/*
 * What we know to be in the kernel and iptables-save does not list: a save that fails with status 0, or
 * somebody else's flush in between. Nothing here depends on a listing. The kernel itself tells: it
 * refuses to delete a rule that is not there, and a chain that something still leads to.
 */

/** Far more than anything of ours leaves; stands against an iptables-restore that does nothing. */
const MAX_OF_ONE_JUMP = 8;

/** @returns true when there was such a jump; the first one is gone now. */
export async function deleteJump(
	runner: CommandRunner,
	tools: XtablesTools,
	jump: Jump,
	signal: AbortSignal,
): Promise<boolean> {
	try {
		await restoreRules(runner, tools, jumpDeletionText(jump), signal);
		return true;
	} catch (error) {
		if (error instanceof RulesRefusedError) return false;
		throw error;
	}
}

/**
 * Removes all of ours from one family, whatever is there. Where the host's tables are gone it leaves
 * them behind again, empty.
 *
 * @throws {Error} where something of ours is left, or may be.
 */
export async function removeUnseen(
	runner: CommandRunner,
	tools: XtablesTools,
	signal: AbortSignal,
): Promise<void> {
	for (const jump of JUMPS) {
		for (let count = 0; count < MAX_OF_ONE_JUMP; count += 1) {
			// oxlint-disable-next-line no-await-in-loop -- whether there is another one is what it tells
			if (!(await deleteJump(runner, tools, jump, signal))) break;
		}
	}
	await restoreRules(runner, tools, unseenRemovalText(), signal);
}
