import { ruleWords } from "./saved-rules.ts";

/** The tables that kube-proxy's iptables and ipvs modes write to. */
export const KUBE_PROXY_TABLES = ["nat", "filter", "mangle"] as const;

export type KubeProxyTable = (typeof KUBE_PROXY_TABLES)[number];

/**
 * Chains with fixed names, of any version and mode. Left out is what kubelet has made: KUBE-MARK-DROP
 * in nat, KUBE-FIREWALL in filter (in nat it was of the ipvs mode), its canary and its hint.
 */
const CHAINS: Readonly<Record<KubeProxyTable, ReadonlySet<string>>> = {
	nat: new Set([
		"KUBE-SERVICES",
		"KUBE-NODEPORTS",
		"KUBE-POSTROUTING",
		"KUBE-MARK-MASQ",
		"KUBE-PROXY-CANARY",
		"KUBE-LOAD-BALANCER",
		"KUBE-NODE-PORT",
		"KUBE-FIREWALL",
	]),
	filter: new Set([
		"KUBE-SERVICES",
		"KUBE-EXTERNAL-SERVICES",
		"KUBE-NODEPORTS",
		"KUBE-FORWARD",
		"KUBE-PROXY-FIREWALL",
		"KUBE-PROXY-CANARY",
		"KUBE-NODE-PORT",
		"KUBE-SOURCE-RANGES-FIREWALL",
		"KUBE-IPVS-FILTER",
		"KUBE-IPVS-OUT-FILTER",
	]),
	mangle: new Set(["KUBE-PROXY-CANARY"]),
};

/** One per ServicePort or endpoint: a hash in base 32 follows. */
const SERVICE_CHAIN = /^KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z2-7]{16}$/;

/** Of the jumps in built-in chains; kube-proxy never makes one without. */
const JUMP_COMMENTS: ReadonlySet<string> = new Set([
	"kubernetes service portals",
	"kubernetes externally-visible service portals",
	"kubernetes health check service ports",
	"kubernetes health check rules",
	"kubernetes forwarding rules",
	"kubernetes postrouting rules",
	"kubernetes load balancer firewall",
	"kube-proxy firewall rules",
	"kubernetes ipvs access filter",
]);

const BUILT_IN: ReadonlySet<string> = new Set([
	"PREROUTING",
	"INPUT",
	"FORWARD",
	"OUTPUT",
	"POSTROUTING",
]);

/** What one table holds of kube-proxy's. */
export interface KubeProxyTableRules {
	readonly chains: ReadonlySet<string>;
	/** Its jumps in built-in chains, as saved: "-A FORWARD ... -j KUBE-FORWARD". */
	readonly jumps: readonly string[];
	/** Rules of other people that lead to its chains, as saved. */
	readonly references: readonly string[];
}

export type KubeProxyRules = Readonly<Record<KubeProxyTable, KubeProxyTableRules>>;

/** Of jumps, and of references, per table. kube-proxy makes at most eight; what is beyond keeps its chain. */
const MAX_KEPT_RULES = 1_000;

/** Takes the output of `iptables-save` line by line: the rules of a large cluster are never held. */
export class KubeProxyRulesReader {
	readonly #tables = { nat: newTable(), filter: newTable(), mangle: newTable() };
	#table: KubeProxyTable | undefined;

	readonly line = (line: string): void => {
		if (line.startsWith("-A ")) this.#rule(line);
		else if (line.startsWith(":")) this.#chain(line.slice(1, line.indexOf(" ")));
		else if (line.startsWith("*")) {
			this.#table = KUBE_PROXY_TABLES.find((table) => table === line.slice(1).trim());
		}
	};

	result(): KubeProxyRules {
		return this.#tables;
	}

	#chain(name: string): void {
		const table = this.#table;
		if (table !== undefined && isKubeProxyChain(table, name)) this.#tables[table].chains.add(name);
	}

	#rule(line: string): void {
		const table = this.#table;
		if (table === undefined || !line.includes(" KUBE-")) return;
		const words = ruleWords(line);
		const [, chain = ""] = words;
		const target = targetOf(words);
		if (target === undefined || !isKubeProxyChain(table, target)) return;
		if (isKubeProxyChain(table, chain)) return;
		const { jumps, references } = this.#tables[table];
		const kept = BUILT_IN.has(chain) && isJump(words) ? jumps : references;
		if (kept.length < MAX_KEPT_RULES) kept.push(line);
	}
}

/** Reads a whole output at once. */
export function parseKubeProxyRules(text: string): KubeProxyRules {
	const reader = new KubeProxyRulesReader();
	for (const line of text.split("\n")) reader.line(line);
	return reader.result();
}

export function isKubeProxyChain(table: KubeProxyTable, name: string): boolean {
	return CHAINS[table].has(name) || (table === "nat" && SERVICE_CHAIN.test(name));
}

/** The chain that a rule leads to, or undefined where it has no target. */
export function targetOf(words: readonly string[]): string | undefined {
	const at = words.findIndex((word) => /^(?:-j|--jump|-g|--goto)$/.test(word));
	return at < 0 ? undefined : words[at + 1];
}

/** Whether a rule of a built-in chain is word for word one that kube-proxy makes. */
function isJump(words: readonly string[]): boolean {
	const comment = words[words.indexOf("--comment") + 1] ?? "";
	if (!words.includes("--comment") || !JUMP_COMMENTS.has(comment)) return false;
	const rest = words
		.slice(2)
		.join(" ")
		.replace(`-m comment --comment ${comment}`, "")
		.replace("-m conntrack --ctstate NEW", "")
		.trim();
	return rest === `-j ${targetOf(words) ?? ""}`;
}

function newTable() {
	return { chains: new Set<string>(), jumps: [] as string[], references: [] as string[] };
}
