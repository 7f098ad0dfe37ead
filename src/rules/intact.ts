import { type OwnChain, ownChainsOf, TABLES } from "./chains.ts";
import { jumpProblems } from "./jumps.ts";
import type { FamilyPlan } from "./plan.ts";
import type { SavedRules } from "./saved-rules.ts";

/**
 * How our chains looked when the kernel read them back after an apply.
 *
 * Saved text never equals the text that was applied (order of matches, "-m tcp", cut comments), so
 * "somebody changed it" can only mean: other than the kernel's own words right after our apply.
 */
export type Baseline = ReadonlyMap<OwnChain, readonly string[]>;

export function baselineOf(saved: SavedRules): Baseline {
	return new Map(TABLES.flatMap((table) => [...saved.tables[table].own]));
}

/** What differs from the baseline, in words; empty when all is as we left it. */
export function driftFrom(baseline: Baseline, saved: SavedRules): readonly string[] {
	return TABLES.flatMap((table) => [
		...ownChainsOf(table).flatMap((chain) => {
			const before = baseline.get(chain);
			const now = saved.tables[table].own.get(chain);
			if (before === undefined || isSame(before, now)) return [];
			if (now === undefined) return [`${table} ${chain}: the chain is gone`];
			return [`${table} ${chain}: ${now.length} rules, not the ${before.length} that we left`];
		}),
		...jumpProblems(table, saved.tables[table]),
	]);
}

/**
 * What keeps a read-back from being the plan, in words; empty when the plan is in force.
 *
 * Rules are counted, not compared: texts differ. That catches a chain that somebody emptied or
 * filled between our apply and the read-back.
 */
export function missingFrom(plan: FamilyPlan, saved: SavedRules): readonly string[] {
	return TABLES.flatMap((table) => [
		...ownChainsOf(table).flatMap((chain) => {
			const wanted = plan.chains.get(chain)?.length ?? 0;
			const count = saved.tables[table].own.get(chain)?.length;
			if (count === wanted) return [];
			return [`${table} ${chain}: wanted ${wanted} rules, got ${count ?? "no chain"}`];
		}),
		...jumpProblems(table, saved.tables[table]),
	]);
}

export function isSame(
	before: readonly string[] | undefined,
	now: readonly string[] | undefined,
): boolean {
	if (before === undefined || now === undefined) return before === now;
	return before.length === now.length && before.every((rule, index) => rule === now[index]);
}
