import { ipFamilyOf } from "../services/address.ts";
import type { ServicePortKey } from "../services/service-port.ts";
import { UserProxyError } from "../shared/errors.ts";
import { type Jump, ownChainsOf, TABLES, type TableName } from "./chains.ts";
import { toError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import { heldChains } from "./held-chains.ts";
import { type Baseline, baselineOf, driftFrom, isSame, missingFrom } from "./intact.ts";
import { jumpsToPutIn, showsJump } from "./jumps.ts";
import type { FamilyPlan } from "./plan.ts";
import { type PreviousBinding, previousBindings } from "./previous.ts";
import { putBackText, removalText, restoreText } from "./restore-text.ts";
import { holdsNothingOfOurs, type SavedRules } from "./saved-rules.ts";
import { type ConntrackResult, UdpFlowCleaner } from "./udp-flow-cleaner.ts";
import { previousUdpTargets, type UdpTarget } from "./udp-targets.ts";
import { deleteJump, removeUnseen } from "./unseen-rules.ts";
import { RulesRefusedError, readSavedRules, restoreRules, type XtablesTools } from "./xtables.ts";

/**
 * The restore succeeded, and yet the kernel does not seem to hold the plan: somebody else wrote
 * meanwhile, or it is the listing that is wrong.
 */
class RulesNotInForceError extends UserProxyError {
	readonly code = "RULES_NOT_IN_FORCE";
	readonly retriable = true;

	/** @param wrongListing the program that left out what was there. */
	constructor(problems: readonly string[], wrongListing: string | undefined) {
		const because =
			wrongListing === undefined ? "" : `${wrongListing} does not list what is there: `;
		super(
			`Cannot find the packet rules in force after applying them: ${because}${problems.join("; ")}`,
		);
	}
}

/** A table could be neither set nor put back: what the kernel holds is between two states. */
class RulesHalfAppliedError extends UserProxyError {
	readonly code = "RULES_HALF_APPLIED";
	readonly retriable = true;

	constructor(cause: unknown) {
		super("Cannot put packet rules back after a failed apply; they are half old, half new", {
			cause,
		});
	}
}

/** Somebody else's rule leads to a chain of ours, which is empty now and cannot be deleted. */
class ChainsHeldError extends UserProxyError {
	readonly code = "CHAINS_HELD";
	readonly retriable = false;

	constructor(held: readonly string[]) {
		super(`Cannot delete every chain: ${held.join("; ")}`);
	}
}

/**
 * The rules of one family in the kernel.
 *
 * Knows what it applied last and how the kernel read it back. Not to be called again before the last
 * call has settled; only {@link FamilyRules.cleanFlows}, itself one at a time, may run beside.
 */
export class FamilyRules {
	readonly #tools: XtablesTools;
	readonly #runner: CommandRunner;
	readonly #cleaner: UdpFlowCleaner;
	#applied: { readonly plan: FamilyPlan; readonly baseline: Baseline } | undefined;
	/** The plan that was asked for last; undefined where there is nothing to keep. */
	#wanted: FamilyPlan | undefined;
	#inForce: ReadonlySet<ServicePortKey> = new Set();
	/** True from the first restore that succeeded to the removal: rules are there, seen or not. */
	#holds: boolean = false;
	/** Jumps that were put in and not seen after it; more of them are not put in before these are gone. */
	#unseen: readonly Jump[] = [];

	constructor(tools: XtablesTools, runner: CommandRunner) {
		this.#tools = tools;
		this.#runner = runner;
		this.#cleaner = new UdpFlowCleaner(tools.family, runner);
	}

	/** ServicePorts that nat rules may lead to at present: after a failure, those of both plans. */
	get inForce(): ReadonlySet<ServicePortKey> {
		return this.#inForce;
	}

	/** The plan that was applied last with success. */
	get plan(): FamilyPlan | undefined {
		return this.#applied?.plan;
	}

	/**
	 * Makes the kernel hold the plan.
	 *
	 * @returns false where it does already and nothing was run.
	 * @throws {Error} where that failed; what was in force before is in force still, unless the error
	 * is a {@link RulesHalfAppliedError} or a {@link RulesNotInForceError}.
	 */
	async apply(plan: FamilyPlan, signal: AbortSignal): Promise<boolean> {
		this.#wanted = plan;
		const applied = this.#applied;
		if (applied?.plan.text === plan.text) {
			// The same rules, and yet flows may be wrong: of a node that has other addresses now.
			this.#applied = { ...applied, plan };
			if (!hasSameFlows(applied.plan, plan)) this.#expectFlows(plan, applied.plan.udp);
			return false;
		}
		const saved = await this.#read(signal);
		if (plan.bindings.length === 0 && holdsNothingOfOurs(saved)) {
			await this.#removeUnseen(saved, signal);
			this.#forget([]);
			return false;
		}
		await this.#makeSo(plan, saved, signal);
		return true;
	}

	/**
	 * Compares the kernel with what was applied and puts it right.
	 *
	 * @returns what somebody had changed, in words.
	 * @throws {Error} as {@link apply} does.
	 */
	async verify(signal: AbortSignal): Promise<readonly string[]> {
		if (this.#applied === undefined) {
			// The last apply ended in a state that nobody knows.
			if (this.#wanted !== undefined) await this.apply(this.#wanted, signal);
			return [];
		}
		const { plan, baseline } = this.#applied;
		const saved = await this.#read(signal);
		const drift = driftFrom(baseline, saved);
		if (drift.length > 0) await this.#makeSo(plan, saved, signal);
		return drift;
	}

	/** Deletes conntrack entries that the last changes made stale. Never rejects. */
	async cleanFlows(signal: AbortSignal): Promise<ConntrackResult> {
		return await this.#cleaner.clean(signal);
	}

	/**
	 * Takes every rule and chain of ours away, those too that were put in and are not listed.
	 *
	 * @throws {ChainsHeldError} if a chain has to stay, empty, since somebody else's rule leads to it.
	 */
	async remove(signal: AbortSignal): Promise<void> {
		const saved = await this.#read(signal);
		await restoreRules(this.#runner, this.#tools, removalText(saved), signal);
		await this.#removeUnseen(saved, signal);
		this.#forget(previousUdpTargets(previousBindings(saved, this.#tools.family)));
		const held = heldChains(await this.#read(signal));
		if (held.length > 0) throw new ChainsHeldError(held);
	}

	async previous(signal: AbortSignal): Promise<readonly PreviousBinding[]> {
		return previousBindings(await this.#read(signal), this.#tools.family);
	}

	/** Nothing of ours is in the kernel any more, and nothing is wanted there. */
	#forget(found: readonly UdpTarget[]): void {
		const past = this.#applied?.plan.udp ?? [];
		this.#cleaner.expect([], [...past, ...found]);
		this.#applied = undefined;
		this.#wanted = undefined;
		this.#inForce = new Set();
		this.#holds = false;
		this.#unseen = [];
	}

	/** A listing that shows nothing of what we put in is no proof that it is gone. */
	async #removeUnseen(saved: SavedRules, signal: AbortSignal): Promise<void> {
		if (this.#holds && holdsNothingOfOurs(saved)) {
			await removeUnseen(this.#runner, this.#tools, signal);
		}
	}

	async #makeSo(plan: FamilyPlan, saved: SavedRules, signal: AbortSignal): Promise<void> {
		try {
			await this.#attempt(plan, saved, signal);
		} catch (error) {
			// A jump that we wanted to delete may have gone between our look and the restore; a second
			// look tells that from rules that the kernel does not take.
			if (!(error instanceof RulesRefusedError)) throw error;
			await this.#attempt(plan, await this.#read(signal), signal);
		}
	}

	async #attempt(plan: FamilyPlan, before: SavedRules, signal: AbortSignal): Promise<void> {
		await this.#takeBack(this.#unseen, before, signal);
		const inForceBefore = this.#inForce;
		this.#inForce = inForceBefore.union(plan.keys);
		let failure: Error | undefined;
		try {
			await restoreRules(this.#runner, this.#tools, restoreText(plan, before), signal);
			this.#holds = true;
		} catch (error) {
			failure = toError(error);
		}
		const now = await this.#readAfter(failure, signal);
		if (failure !== undefined) {
			await this.#putBack(before, now, signal);
			this.#inForce = inForceBefore;
			throw failure;
		}
		const missing = missingFrom(plan, now);
		if (missing.length > 0) {
			this.#applied = undefined;
			const putIn = TABLES.flatMap((table) => jumpsToPutIn(table, before.tables[table]));
			throw await this.#notInForce(missing, putIn, now, signal);
		}
		this.#succeed(plan, before, now);
	}

	async #notInForce(
		missing: readonly string[],
		putIn: readonly Jump[],
		now: SavedRules,
		signal: AbortSignal,
	): Promise<Error> {
		let takenBack = 0;
		try {
			takenBack = await this.#takeBack(putIn, now, signal);
		} catch {
			// They are in #unseen: the next attempt begins with them.
		}
		return new RulesNotInForceError(missing, takenBack > 0 ? this.#tools.save : undefined);
	}

	/**
	 * Deletes jumps that we put in where the listing does not show them: the next attempt, by that same
	 * listing, would put in more.
	 *
	 * @returns how many there were: the listing is wrong then.
	 */
	async #takeBack(jumps: readonly Jump[], saved: SavedRules, signal: AbortSignal): Promise<number> {
		this.#unseen = jumps.filter((jump) => !showsJump(jump, saved.tables[jump.table]));
		let count = 0;
		for (const jump of this.#unseen) {
			// oxlint-disable-next-line no-await-in-loop -- a refusal is of one jump
			if (await deleteJump(this.#runner, this.#tools, jump, signal)) count += 1;
			this.#unseen = this.#unseen.filter((other) => other !== jump);
		}
		return count;
	}

	/** After a failed restore that failure is what the caller has to hear of, not that of the look. */
	async #readAfter(failure: Error | undefined, signal: AbortSignal): Promise<SavedRules> {
		try {
			return await this.#read(signal);
		} catch (error) {
			this.#applied = undefined;
			throw failure ?? toError(error);
		}
	}

	/** A restore commits table by table: those that were committed get what they held before. */
	async #putBack(before: SavedRules, now: SavedRules, signal: AbortSignal): Promise<void> {
		const changed = TABLES.filter((table) => !holdsTheSame(table, before, now));
		const text = changed.map((table) => putBackText(table, before, now)).join("");
		try {
			await restoreRules(this.#runner, this.#tools, text, signal);
		} catch (error) {
			this.#applied = undefined;
			throw new RulesHalfAppliedError(error);
		}
	}

	#succeed(plan: FamilyPlan, before: SavedRules, now: SavedRules): void {
		const old = this.#applied?.plan;
		this.#applied = { plan, baseline: baselineOf(now) };
		this.#inForce = plan.keys;
		// With an old plan that equals the new one somebody had changed the rules: flows that began
		// meanwhile have no or another target.
		if (old !== undefined && old.text !== plan.text && hasSameFlows(old, plan)) return;
		this.#expectFlows(plan, old?.udp ?? previousUdpTargets(previousBindings(before, plan.family)));
	}

	#expectFlows(plan: FamilyPlan, gone: readonly UdpTarget[]): void {
		// Capture was switched off: flows that there are may go on.
		if (plan.keys.size < plan.bindings.length) return;
		this.#cleaner.expect(plan.udp, gone, plan.wanted.network);
	}

	async #read(signal: AbortSignal): Promise<SavedRules> {
		return await readSavedRules(this.#runner, this.#tools, signal);
	}
}

function holdsTheSame(table: TableName, before: SavedRules, now: SavedRules): boolean {
	return ownChainsOf(table).every((chain) =>
		isSame(before.tables[table].own.get(chain), now.tables[table].own.get(chain)),
	);
}

/** Whether UDP flows that are right by one plan are right by the other. */
function hasSameFlows(old: FamilyPlan, plan: FamilyPlan): boolean {
	if (old.text === plan.text && old.wanted.network === plan.wanted.network) return true;
	const text = ({ udp }: FamilyPlan) => udp.map((target) => JSON.stringify(target)).join("\n");
	return text(old) === text(plan) && !strandsFlows(old, plan);
}

/** A listener on all addresses served a flow at whichever the node had: it hangs once the node has that no more. */
function strandsFlows(old: FamilyPlan, { family, udp, wanted }: FamilyPlan): boolean {
	const lost = old.wanted.network.addresses.difference(wanted.network.addresses);
	return (
		lost.values().some((address) => ipFamilyOf(address) === family) &&
		udp.some(({ listenAddress }) => listenAddress === undefined)
	);
}
