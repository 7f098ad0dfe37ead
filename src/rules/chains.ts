/** The tables that we write to, in the order in which a restore commits them. */
// The filter table goes first: a proxy port is let in (or refused) before anything is led to it, and
// the nat table, which decides which ports clients are led to, is the last thing that changes.
export const TABLES = ["filter", "nat"] as const;

export type TableName = (typeof TABLES)[number];

/**
 * Every chain that any version of this daemon makes: the five of the classic userspace kube-proxy, one
 * that the last of them leads to, and three for ClusterIPs that nothing was led from.
 */
export type OwnChain =
	| "KUBE-PORTALS-CONTAINER"
	| "KUBE-PORTALS-HOST"
	| "KUBE-NODEPORT-CONTAINER"
	| "KUBE-NODEPORT-HOST"
	| "KUBE-NODEPORT-NON-LOCAL"
	| "KUBE-LB-SOURCE-RANGES"
	| "KUBE-CLUSTER-IPS"
	| "KUBE-UNUSED-CLUSTER-IPS"
	| "KUBE-REFUSED-CLUSTER-IPS";

export type HookChain = "PREROUTING" | "OUTPUT" | "INPUT" | "FORWARD";

/** The one rule in a built-in chain that leads into a chain of ours. */
export interface Jump {
	readonly table: TableName;
	readonly hook: HookChain;
	readonly chain: OwnChain;
	/** "anywhere" is put in first, and left alone where others come to stand before it. */
	readonly position: "first" | "last" | "anywhere";
	/** Matches before the comment, as restore and save both write them. */
	readonly matches: readonly string[];
	readonly comment: string;
}

// The first three are those of the classic kube-proxy, so that its --cleanup finds our jumps and ours finds its.
const PORTALS = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const NODE_PORTS = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const NON_LOCAL = "Ensure that non-local NodePort traffic can flow";
const CLUSTER_IPS = "ports and addresses of ClusterIPs that no Service has";
const IS_NEW = ["-m", "conntrack", "--ctstate", "NEW"] as const;
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
	...(["FORWARD", "OUTPUT"] as const).map(
		(hook): Jump => ({
			table: "filter",
			hook,
			chain: "KUBE-CLUSTER-IPS",
			// CNI plugins insist on being first in FORWARD; what they accept before us only waits longer.
			position: "anywhere",
			matches: IS_NEW,
			comment: CLUSTER_IPS,
		}),
	),
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
		"KUBE-NODEPORT-NON-LOCAL",
		"KUBE-LB-SOURCE-RANGES",
		"KUBE-CLUSTER-IPS",
		"KUBE-UNUSED-CLUSTER-IPS",
		"KUBE-REFUSED-CLUSTER-IPS",
	],
	nat: [
		"KUBE-PORTALS-CONTAINER",
		"KUBE-PORTALS-HOST",
		"KUBE-NODEPORT-CONTAINER",
		"KUBE-NODEPORT-HOST",
	],
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
