import {
	type HookChain,
	isHook,
	isOwnChain,
	isTableName,
	type OwnChain,
	type TableName,
} from "./chains.ts";

/** What `iptables-save` tells about one table, as far as it is our business. */
export interface SavedTable {
	/** Our chains that exist, each with its rules as saved ("-A CHAIN ..."). */
	readonly own: ReadonlyMap<OwnChain, readonly string[]>;
	/** All rules of the built-in chains that our jumps stand in, in order, as saved. */
	readonly hooks: ReadonlyMap<HookChain, readonly string[]>;
	/** Rules of other people's chains that lead to ours, as saved; at most 100. */
	readonly references: readonly string[];
}

export interface SavedRules {
	readonly tables: Readonly<Record<TableName, SavedTable>>;
	/** Chains of all tables, built-in ones too; 0: nobody uses this variant and family. */
	readonly chainCount: number;
	/** Rules of all tables that are not in our chains. */
	readonly foreignRuleCount: number;
	/** True when kubelet left the chain by which it shows which variant it uses. */
	readonly hasKubeletHint: boolean;
	/** Chains of the nat table that other Service proxies make, each name once; at most 10. */
	readonly otherProxyChains: readonly string[];
	/** Our tables that hold native nftables rules which iptables cannot show: their listing is no truth. */
	readonly unreadable: readonly TableName[];
}

const MAX_REFERENCES = 100;
const KUBELET_HINTS = new Set(["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"]);

const OTHER_PROXY_CHAINS = /^(?:KUBE-SERVICES|KUBE-NODEPORTS|CILIUM_\w+)$/;
const MAX_OTHER_PROXY_CHAINS = 10;

/** An option whose value follows it in quotes may hold anything; " -j X" outside of them is a target. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/** Takes the output of `iptables-save` line by line, so that a large foreign rule set is never held. */
export class SavedRulesReader {
	readonly #tables = { filter: newTable(), nat: newTable() };
	#table: string | undefined;
	#chainCount = 0;
	#foreignRuleCount = 0;
	#hasKubeletHint = false;
	readonly #otherProxyChains: string[] = [];
	readonly #unreadable: TableName[] = [];

	readonly line = (line: string): void => {
		if (line.startsWith("-A ")) this.#rule(line);
		else if (line.startsWith(":")) this.#chain(line);
		else if (line.startsWith("*")) this.#table = line.slice(1).trim();
		else if (line.startsWith("#")) this.#comment(line);
	};

	result(): SavedRules {
		return {
			tables: this.#tables,
			chainCount: this.#chainCount,
			foreignRuleCount: this.#foreignRuleCount,
			hasKubeletHint: this.#hasKubeletHint,
			otherProxyChains: this.#otherProxyChains,
			unreadable: this.#unreadable,
		};
	}

	#chain(line: string): void {
		const name = line.slice(1, line.indexOf(" "));
		this.#chainCount += 1;
		if (KUBELET_HINTS.has(name)) this.#hasKubeletHint = true;
		const table = this.#table;
		if (table === "nat" && OTHER_PROXY_CHAINS.test(name)) this.#otherProxy(name);
		if (table === undefined || !isTableName(table) || !isOwnChain(table, name)) return;
		this.#tables[table].own.set(name, []);
	}

	#otherProxy(name: string): void {
		const known = this.#otherProxyChains;
		if (known.length < MAX_OTHER_PROXY_CHAINS && !known.includes(name)) known.push(name);
	}

	#rule(line: string): void {
		const table = this.#table;
		const chain = line.slice(3, line.indexOf(" ", 3));
		if (table === undefined || !isTableName(table)) {
			this.#foreignRuleCount += 1;
		} else if (isOwnChain(table, chain)) {
			this.#tables[table].own.get(chain)?.push(line);
		} else {
			this.#foreignRule(table, chain, line);
		}
	}

	#foreignRule(table: TableName, chain: string, line: string): void {
		const { hooks, references } = this.#tables[table];
		this.#foreignRuleCount += 1;
		if (isHook(table, chain)) {
			const rules = hooks.get(chain);
			if (rules === undefined) hooks.set(chain, [line]);
			else rules.push(line);
		} else if (targetsOwnChain(table, line) && references.length < MAX_REFERENCES) {
			references.push(line);
		}
	}

	#comment(line: string): void {
		const table = /^# Table [`'"]?(\w+)['"]? is incompatible/.exec(line)?.[1];
		if (table !== undefined && isTableName(table)) this.#unreadable.push(table);
	}
}

/** Reads a whole output at once. */
export function parseSavedRules(text: string): SavedRules {
	const reader = new SavedRulesReader();
	for (const line of text.split("\n")) reader.line(line);
	return reader.result();
}

/** True when our tables hold neither a chain of ours nor a rule that leads to one. */
export function holdsNothingOfOurs({ tables }: SavedRules): boolean {
	return [tables.filter, tables.nat].every(({ own }) => own.size === 0);
}

export function targetsOwnChain(table: TableName, rule: string): boolean {
	// Nearly all foreign rules end here, without the cost of a regular expression.
	if (!rule.includes(" KUBE-")) return false;
	const target = / (?:-j|--jump|-g|--goto) (\S+)/.exec(rule.replace(QUOTED, '""'))?.[1];
	return target !== undefined && isOwnChain(table, target);
}

/** Splits a saved rule into its words; quotes are taken off and escapes undone. */
export function ruleWords(rule: string): readonly string[] {
	const words = rule.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
	return words.map((word) =>
		word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, "$1") : word,
	);
}

function newTable() {
	return {
		own: new Map<OwnChain, string[]>(),
		hooks: new Map<HookChain, string[]>(),
		references: [] as string[],
	};
}
