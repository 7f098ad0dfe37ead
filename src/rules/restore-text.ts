import {
	type Jump,
	jumpSpec,
	type OwnChain,
	ownChainsOf,
	TABLES,
	type TableName,
} from "./chains.ts";
import { foreignReferences, jumpDeletions, jumpRepairs } from "./jumps.ts";
import type { FamilyPlan } from "./plan.ts";
import type { SavedRules } from "./saved-rules.ts";

type ChainRules = ReadonlyMap<OwnChain, readonly string[]>;

/**
 * Writes a plan as input for `iptables-restore --noflush`: our chains whole, in both tables, and
 * the commands that put our jumps right where they are not.
 *
 * @param saved what the kernel holds at present.
 */
export function restoreText(plan: FamilyPlan, saved: SavedRules): string {
	return TABLES.map((table) => tableText(table, plan.chains, saved)).join("");
}

/**
 * Writes what makes one table hold our chains as they were before.
 *
 * @param before what the kernel held then.
 * @param now what it holds at present.
 */
export function putBackText(table: TableName, before: SavedRules, now: SavedRules): string {
	const { own } = before.tables[table];
	return own.size === 0 ? removalTableText(table, now) : tableText(table, own, now);
}

/**
 * Writes what takes our jumps, rules and chains out of both tables; empty when nothing is there.
 *
 * A chain that somebody else's rule leads to cannot be deleted, and one such chain would make the
 * kernel refuse the whole table: it is emptied and stays.
 */
export function removalText(saved: SavedRules): string {
	return TABLES.map((table) => removalTableText(table, saved)).join("");
}

/** Writes what deletes the first jump of this kind; refused where there is none. */
export function jumpDeletionText(jump: Jump): string {
	return lines([`*${jump.table}`, `-D ${jump.hook} ${jumpSpec(jump)}`, "COMMIT"]);
}

/**
 * Writes what removes our chains whether they are there or not; refused where something leads to one.
 *
 * Declaring a chain makes or empties it, so that deleting it cannot fail for another reason.
 */
export function unseenRemovalText(): string {
	return TABLES.map((table) => {
		const chains = ownChainsOf(table);
		return lines([
			`*${table}`,
			...chains.map((chain) => `:${chain} - [0:0]`),
			...chains.map((chain) => `-X ${chain}`),
			"COMMIT",
		]);
	}).join("");
}

function tableText(table: TableName, rules: ChainRules, saved: SavedRules): string {
	const chains = ownChainsOf(table);
	return lines([
		`*${table}`,
		// Declaring a chain empties it inside the same transaction: no moment exists with half of it.
		...chains.map((chain) => `:${chain} - [0:0]`),
		...jumpRepairs(table, saved.tables[table]),
		...chains.flatMap((chain) => rules.get(chain) ?? []),
		"COMMIT",
	]);
}

function removalTableText(table: TableName, saved: SavedRules): string {
	const savedTable = saved.tables[table];
	const existing = ownChainsOf(table).filter((chain) => savedTable.own.has(chain));
	const deletions = jumpDeletions(table, savedTable);
	if (existing.length === 0 && deletions.length === 0) return "";
	const held = foreignReferences(table, savedTable);
	const deletable = existing.filter((chain) => !held.some((rule) => rule.includes(chain)));
	return lines([
		`*${table}`,
		...deletions,
		...existing.map((chain) => `-F ${chain}`),
		...deletable.map((chain) => `-X ${chain}`),
		"COMMIT",
	]);
}

function lines(texts: readonly string[]): string {
	return `${texts.join("\n")}\n`;
}
