/** The tables that we write to, in the order in which a restore commits them. */
// The filter table goes first: a proxy port is let in (or refused) before anything is led to it, and
// the nat table, which decides which ports clients are led to, is the last thing that changes.
export const TABLES = ["filter", "nat"] as const;

export type TableName = (typeof TABLES)[number];

/**
 * Every chain that any version of this daemon makes: the five of the classic userspace kube-proxy, and
 * one that the first of them leads to.
 */
export type OwnChain =
	| "KUBE-PORTALS-CONTAINER"
	| "KUBE-PORTALS-HOST"
	| "KUBE-NODEPORT-CONTAINER"
	| "KUBE-NODEPORT-HOST"
	| "KUBE-NODEPORT-NON-LOCAL"
	| "KUBE-LB-SOURCE-RANGES";

export type HookChain = "PREROUTING" | "OUTPUT" | "INPUT";

/** The one rule in a built-in chain that leads into a chain of ours. */
export interface Jump {
	readonly table: TableName;
	readonly hook: HookChain;
	readonly chain: OwnChain;
	readonly position: "first" | "last";
	/** Matches before the comment, as restore and save both write them. */
	readonly matches: readonly string[];
	readonly comment: string;
}

// Literal texts of the classic kube-proxy, so that its --cleanup finds our jumps and ours finds its.
const PORTALS = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const NODE_PORTS = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const NON_LOCAL = "Ensure that non-local NodePort traffic can flow";
const TO_LOCAL = ["-m", "addrtype", "--dst-type", "LOCAL"] as const;

export const JUMPS: readonly Jump[] = [
	{
		table: "filter",
		hook: "INPUT",
		chain: "KUBE-NODEPORT-NON-LOCAL",
		position: "first",
		matches: [],
		comment: NON_LOCAL,
	},
	{
		table: "nat",
		hook: "PREROUTING",
		chain: "KUBE-PORTALS-CONTAINER",
		position: "first",
		matches: [],
		comment: PORTALS,
	},
	{
		table: "nat",
		hook: "OUTPUT",
		chain: "KUBE-PORTALS-HOST",
		position: "first",
		matches: [],
		comment: PORTALS,
	},
	{
		table: "nat",
		hook: "PREROUTING",
		chain: "KUBE-NODEPORT-CONTAINER",
		position: "last",
		matches: TO_LOCAL,
		comment: NODE_PORTS,
	},
	{
		table: "nat",
		hook: "OUTPUT",
		chain: "KUBE-NODEPORT-HOST",
		position: "last",
		matches: TO_LOCAL,
		comment: NODE_PORTS,
	},
];

export const JUMP_COMMENTS: ReadonlySet<string> = new Set(JUMPS.map(({ comment }) => comment));

/** The chains of one table, in the order in which we declare them. */
export function ownChainsOf(table: TableName): readonly OwnChain[] {
	return OWN_CHAINS[table];
}

const OWN_CHAINS: Readonly<Record<TableName, readonly OwnChain[]>> = {
	filter: [
		...JUMPS.filter(({ table }) => table === "filter").map(({ chain }) => chain),
		"KUBE-LB-SOURCE-RANGES",
	],
	nat: JUMPS.filter(({ table }) => table === "nat").map(({ chain }) => chain),
};

export function isTableName(text: string): text is TableName {
	return text === "filter" || text === "nat";
}

/** True for a chain that is ours in this table. */
export function isOwnChain(table: TableName, name: string): name is OwnChain {
	return OWN_CHAINS[table].some((chain) => chain === name);
}

export function isHook(table: TableName, name: string): name is HookChain {
	return JUMPS.some((jump) => jump.table === table && jump.hook === name);
}

/** The jump as `iptables-restore` takes it, without the command and the chain it stands in. */
export function jumpSpec({ matches, comment, chain }: Jump): string {
	return [...matches, "-m", "comment", "--comment", `"${comment}"`, "-j", chain].join(" ");
}
