import {
	type HookChain,
	isOwnChain,
	JUMP_COMMENTS,
	JUMPS,
	type Jump,
	jumpSpec,
	type TableName,
} from "./chains.ts";
import { ruleWords, type SavedTable, targetsOwnChain } from "./saved-rules.ts";

/** A rule of a built-in chain, looked at with our eyes. */
interface HookRule {
	readonly rule: string;
	/** The jump that it is, word for word. */
	readonly jump: Jump | undefined;
	/** True for jumps of ours in any shape: the right ones, and those that nobody else can have made. */
	readonly isOurs: boolean;
}

/**
 * The commands that make our jumps right in one table: each there once, portals and admission first,
 * node ports last. Empty when they are right.
 *
 * Rules are deleted by their text and never by number: between our look and the restore somebody may
 * have inserted a rule, and a number would then take theirs away.
 */
export function jumpRepairs(table: TableName, saved: SavedTable): readonly string[] {
	return hooksOf(table).flatMap((hook) => {
		const wanted = jumpsIn(table, hook);
		const rules = hookRules(table, saved, hook);
		if (areRight(rules, wanted)) return [];
		return [
			...rules.filter(({ isOurs }) => isOurs).map(({ rule }) => deletionOf(rule)),
			...wanted.map((jump) =>
				jump.position === "last"
					? `-A ${hook} ${jumpSpec(jump)}`
					: `-I ${hook} 1 ${jumpSpec(jump)}`,
			),
		];
	});
}

/** The jumps that {@link jumpRepairs} puts in. */
export function jumpsToPutIn(table: TableName, saved: SavedTable): readonly Jump[] {
	return hooksOf(table).flatMap((hook) => {
		const wanted = jumpsIn(table, hook);
		return areRight(hookRules(table, saved, hook), wanted) ? [] : wanted;
	});
}

/** True when a jump is there, word for word. */
export function showsJump(jump: Jump, saved: SavedTable): boolean {
	return hookRules(jump.table, saved, jump.hook).some((rule) => rule.jump === jump);
}

/** The commands that take every jump of ours out of the built-in chains of one table. */
export function jumpDeletions(table: TableName, saved: SavedTable): readonly string[] {
	return hooksOf(table).flatMap((hook) =>
		hookRules(table, saved, hook)
			.filter(({ isOurs }) => isOurs)
			.map(({ rule }) => deletionOf(rule)),
	);
}

/** What is wrong with our jumps, in words: "nat OUTPUT: jump to KUBE-PORTALS-HOST is missing". */
export function jumpProblems(table: TableName, saved: SavedTable): readonly string[] {
	return hooksOf(table).flatMap((hook) => {
		const wanted = jumpsIn(table, hook);
		const rules = hookRules(table, saved, hook);
		if (areRight(rules, wanted)) return [];
		const found = wanted.map((jump) => {
			const count = rules.filter((rule) => rule.jump === jump).length;
			return { jump, count };
		});
		const lost = found
			.filter(({ count }) => count !== 1)
			.map(
				({ jump, count }) =>
					`${table} ${hook}: jump to ${jump.chain} is ${count === 0 ? "missing" : "doubled"}`,
			);
		return lost.length > 0 ? lost : [`${table} ${hook}: our jumps are not in their place`];
	});
}

/** Rules of other people that lead to our chains, as saved. They keep our chains from being deleted. */
export function foreignReferences(table: TableName, saved: SavedTable): readonly string[] {
	const inHooks = hooksOf(table).flatMap((hook) =>
		hookRules(table, saved, hook)
			.filter(({ rule, isOurs }) => !isOurs && targetsOwnChain(table, rule))
			.map(({ rule }) => rule),
	);
	return [...inHooks, ...saved.references];
}

function areRight(rules: readonly HookRule[], wanted: readonly Jump[]): boolean {
	const ours = rules.filter(({ isOurs }) => isOurs);
	return ours.length === wanted.length && wanted.every((jump) => isInPlace(jump, rules));
}

function isInPlace(jump: Jump, rules: readonly HookRule[]): boolean {
	switch (jump.position) {
		case "first":
			return rules.at(0)?.jump === jump;
		case "last":
			return rules.at(-1)?.jump === jump;
		case "anywhere":
			return rules.some((rule) => rule.jump === jump);
	}
}

function hookRules(table: TableName, saved: SavedTable, hook: HookChain): readonly HookRule[] {
	return (saved.hooks.get(hook) ?? []).map((rule) => {
		if (!targetsOwnChain(table, rule)) return { rule, jump: undefined, isOurs: false };
		const { comment, rest } = withoutComment(ruleWords(rule).slice(2));
		const jump = jumpsIn(table, hook).find(
			(wanted) =>
				wanted.comment === comment &&
				rest.join(" ") === [...wanted.matches, "-j", wanted.chain].join(" "),
		);
		const isBare = rest.length === 2 && rest[0] === "-j" && isOwnChain(table, rest[1] ?? "");
		const isOurs = jump !== undefined || isBare || JUMP_COMMENTS.has(comment ?? "");
		return { rule, jump, isOurs };
	});
}

function withoutComment(words: readonly string[]): { comment?: string; rest: readonly string[] } {
	const at = words.indexOf("--comment");
	const comment = words[at + 1];
	if (at < 2 || comment === undefined) return { rest: words };
	return { comment, rest: [...words.slice(0, at - 2), ...words.slice(at + 2)] };
}

/** "-A OUTPUT ..." as saved is what restore takes back: the same words delete the rule. */
function deletionOf(rule: string): string {
	return `-D${rule.slice(2)}`;
}

function jumpsIn(table: TableName, hook: HookChain): readonly Jump[] {
	return JUMPS.filter((jump) => jump.table === table && jump.hook === hook);
}

function hooksOf(table: TableName): readonly HookChain[] {
	return [...new Set(JUMPS.filter((jump) => jump.table === table).map(({ hook }) => hook))];
}
