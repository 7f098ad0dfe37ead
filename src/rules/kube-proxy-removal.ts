import {
	KUBE_PROXY_TABLES,
	type KubeProxyRules,
	type KubeProxyTable,
	type KubeProxyTableRules,
	targetOf,
} from "./kube-proxy-rules.ts";
import { ruleWords } from "./saved-rules.ts";

/** Mark and masquerade: kubelet and the CNI plugin portmap may use them too. */
const MARK_CHAIN = "KUBE-MARK-MASQ";
const MASQUERADE_CHAIN = "KUBE-POSTROUTING";

export interface KubeProxyRemoval {
	/** Input for `iptables-restore --noflush`; empty where nothing is to be done. */
	readonly text: string;
	readonly chains: number;
	readonly jumps: number;
	/** What is left whole since somebody else uses it, in words. */
	readonly kept: readonly string[];
}

/**
 * What takes kube-proxy's jumps, rules and chains out of all tables of one family. Pure.
 *
 * A chain that somebody else's rule leads to cannot be deleted, and one such chain would make the
 * kernel refuse the whole table: it is emptied and stays. Where that rule marks packets for
 * masquerading, marking and masquerading stay whole.
 */
export function planKubeProxyRemoval(rules: KubeProxyRules): KubeProxyRemoval {
	const tables = KUBE_PROXY_TABLES.map((table) => planTable(table, rules[table]));
	return {
		text: tables.map(({ text }) => text).join(""),
		chains: sum(tables.map(({ chains }) => chains)),
		jumps: sum(tables.map(({ jumps }) => jumps)),
		kept: tables.flatMap(({ kept }) => kept),
	};
}

/** Chains of kube-proxy's that are there after a removal, and what keeps them, in words. */
export function heldKubeProxyChains(rules: KubeProxyRules): readonly string[] {
	return KUBE_PROXY_TABLES.flatMap((table) => {
		const { chains, references } = rules[table];
		const keptWhole = keptChains(table, rules[table]);
		return [...chains]
			.filter((chain) => !keptWhole.has(chain))
			.map((chain) => {
				const holder = references.find((rule) => leadsTo(rule) === chain);
				const because =
					holder === undefined ? "" : `: a rule of somebody else leads to it (${holder})`;
				return `chain ${chain} in table ${table} could not be deleted${because}`;
			});
	});
}

function planTable(table: KubeProxyTable, rules: KubeProxyTableRules): KubeProxyRemoval {
	const keptWhole = keptChains(table, rules);
	const held = new Set(rules.references.map(leadsTo));
	const chains = [...rules.chains].filter((chain) => !keptWhole.has(chain));
	const jumps = rules.jumps.filter((rule) => !keptWhole.has(leadsTo(rule)));
	const deletable = chains.filter((chain) => !held.has(chain));
	const kept = keptWhole.size === 0 ? [] : [keptText(table, keptWhole, rules.references)];
	if (chains.length === 0 && jumps.length === 0) return { text: "", chains: 0, jumps: 0, kept };
	const lines = [
		`*${table}`,
		// Declaring a chain empties it, also one that kube-proxy has deleted since we looked.
		...chains.map((chain) => `:${chain} - [0:0]`),
		...jumps.map((rule) => `-D${rule.slice(2)}`),
		...deletable.map((chain) => `-X ${chain}`),
		"COMMIT",
	];
	return {
		text: `${lines.join("\n")}\n`,
		chains: deletable.length,
		jumps: jumps.length,
		kept,
	};
}

/** Chains whose rules somebody else counts on. */
function keptChains(table: KubeProxyTable, rules: KubeProxyTableRules): ReadonlySet<string> {
	const isMarkUsed =
		table === "nat" && rules.references.some((rule) => leadsTo(rule) === MARK_CHAIN);
	return new Set(
		isMarkUsed ? [MARK_CHAIN, MASQUERADE_CHAIN].filter((chain) => rules.chains.has(chain)) : [],
	);
}

function keptText(
	table: KubeProxyTable,
	chains: ReadonlySet<string>,
	references: readonly string[],
): string {
	const user = references.find((rule) => leadsTo(rule) === MARK_CHAIN) ?? "";
	return `${[...chains].join(" and ")} in table ${table}: a rule of somebody else needs them (${user})`;
}

function leadsTo(rule: string): string {
	return targetOf(ruleWords(rule)) ?? "";
}

function sum(numbers: readonly number[]): number {
	return numbers.reduce((total, number) => total + number, 0);
}
