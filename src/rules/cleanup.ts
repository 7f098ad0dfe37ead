import type { IpFamily } from "../services/address.ts";
import { describeError } from "../shared/errors.ts";
import { findTools, type HostLook } from "./find-tools.ts";
import { heldChains } from "./held-chains.ts";
import { previousBindings } from "./previous.ts";
import { removalText } from "./restore-text.ts";
import { holdsNothingOfOurs, type SavedRules } from "./saved-rules.ts";
import { UdpFlowCleaner } from "./udp-flow-cleaner.ts";
import { previousUdpTargets } from "./udp-targets.ts";
import { readSavedRules, restoreRules, type Variant, type XtablesTools } from "./xtables.ts";

export interface CleanupReport {
	/** Places where something of ours was found and taken away. */
	readonly cleaned: readonly { readonly family: IpFamily; readonly variant: Variant }[];
	/** What could not be done, as people read it; empty: nothing of ours is left. */
	readonly problems: readonly string[];
}

/**
 * Takes away every rule and chain that any version of this daemon, or a classic userspace kube-proxy,
 * ever made: both variants, both families. Needs no state; a second run finds nothing.
 *
 * @throws {CommandError} without the permission to read rules.
 */
export async function cleanup(look: HostLook): Promise<CleanupReport> {
	const { found } = await findTools(look);
	const cleaned: { family: IpFamily; variant: Variant }[] = [];
	const problems: string[] = [];
	for (const { tools, saved } of found) {
		// Where rules cannot be listed the kernel lacks the variant: there are none.
		if (saved instanceof Error || !hasTraces(saved)) continue;
		const { family, variant } = tools;
		try {
			const left = await removeAll(look, tools, saved);
			cleaned.push({ family, variant });
			problems.push(...left.map((text) => `${family} (${variant}): ${text}`));
		} catch (error) {
			problems.push(`${family} (${variant}): ${describeError(error)}`);
		}
	}
	return { cleaned, problems };
}

async function removeAll(
	{ runner, signal }: HostLook,
	tools: XtablesTools,
	saved: SavedRules,
): Promise<readonly string[]> {
	await restoreRules(runner, tools, removalText(saved), signal);
	// Flows of UDP clients would go on to a proxy port where nobody listens.
	const flows = new UdpFlowCleaner(tools.family, runner);
	flows.expect([], previousUdpTargets(previousBindings(saved, tools.family)));
	await flows.clean(signal);
	return heldChains(await readSavedRules(runner, tools, signal));
}

/** True where removal has something to do. */
function hasTraces(saved: SavedRules): boolean {
	return !holdsNothingOfOurs(saved) || removalText(saved) !== "";
}
