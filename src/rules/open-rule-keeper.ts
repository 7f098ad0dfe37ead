import { readFile } from "node:fs/promises";
import { findTools, type HostLook } from "./find-tools.ts";
import { createRuleKeeper, type RuleKeeper } from "./rule-keeper.ts";
import { chooseVariant } from "./variant.ts";

/**
 * Looks at this host and makes the keeper that fits it. Changes nothing yet.
 *
 * @throws {NoRulesSupportError} where the host can have no rules: nothing installed, no kernel support.
 * @throws {CommandError} without the permission to read rules.
 */
export async function openRuleKeeper(look: HostLook): Promise<RuleKeeper> {
	return createRuleKeeper(chooseVariant(await findTools(look)), look.runner);
}

/** Content of a file of /proc; undefined where it is not there or not for us to read. */
export async function readTextFile(path: string): Promise<string | undefined> {
	try {
		return await readFile(path, "utf8");
	} catch {
		return undefined;
	}
}
