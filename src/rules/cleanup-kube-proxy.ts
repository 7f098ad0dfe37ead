import { describeError, errorCode } from "../shared/errors.ts";
import { findTools, type HostLook } from "./find-tools.ts";
import { heldKubeProxyChains, planKubeProxyRemoval } from "./kube-proxy-removal.ts";
import { type KubeProxyRules, KubeProxyRulesReader } from "./kube-proxy-rules.ts";
import {
	IPVS_INTERFACE,
	type KubeProxyTraces,
	lookForKubeProxyTraces,
} from "./kube-proxy-traces.ts";
import { listRules, programOf, restoreRules, type XtablesTools } from "./xtables.ts";

interface CleanedTables {
	/** "ip6tables-legacy". */
	readonly program: string;
	/** How many were deleted. */
	readonly chains: number;
	readonly jumps: number;
}

interface Leftover {
	readonly what: string;
	readonly command: string;
}

export interface KubeProxyCleanupReport {
	readonly cleaned: readonly CleanedTables[];
	/** "ip kube-proxy". */
	readonly nftTables: readonly string[];
	/** What was left whole since others use it, in words. */
	readonly kept: readonly string[];
	/** What this program does not remove, and the command that does. */
	readonly left: readonly Leftover[];
	/** What could not be looked for, and why. */
	readonly unseen: readonly string[];
	/** What could not be done, as people read it. */
	readonly problems: readonly string[];
}

const NFT_TIMEOUT_MS = 30_000;

/**
 * Takes away what a kube-proxy in iptables, ipvs or nftables mode made in the packet filter: both
 * variants, both families. Needs no state; a second run finds nothing. Rules of others, and ours, stay.
 *
 * @throws {CommandError} without the permission to read rules.
 */
export async function cleanupKubeProxy(look: HostLook): Promise<KubeProxyCleanupReport> {
	const report = new Report();
	for (const { tools, saved } of (await findTools(look)).found) {
		if (saved instanceof Error) report.unreadable(tools, saved);
		else if (saved.chainCount > 0) await cleanTables(look, tools, report);
	}
	const traces = await lookForKubeProxyTraces(look);
	await deleteNftTables(look, traces, report);
	report.left.push(...ipvsLeftovers(traces));
	return report;
}

async function cleanTables(look: HostLook, tools: XtablesTools, report: Report): Promise<void> {
	const { runner, signal } = look;
	try {
		const { text, chains, jumps, kept } = planKubeProxyRemoval(await readRules(look, tools));
		report.kept.push(...kept.map((what) => `${programOf(tools)}: ${what}`));
		if (text === "") return;
		await restoreRules(runner, tools, text, signal);
		report.cleaned.push({ program: programOf(tools), chains, jumps });
		const held = heldKubeProxyChains(await readRules(look, tools));
		report.problems.push(...held.map((what) => `${programOf(tools)}: ${what}`));
	} catch (error) {
		report.problems.push(`${programOf(tools)}: ${describeError(error)}`);
	}
}

async function readRules(
	{ runner, signal }: HostLook,
	tools: XtablesTools,
): Promise<KubeProxyRules> {
	const reader = new KubeProxyRulesReader();
	await listRules(runner, tools, reader.line, signal);
	return reader.result();
}

async function deleteNftTables(
	{ runner, signal }: HostLook,
	{ nftTables }: KubeProxyTraces,
	report: Report,
): Promise<void> {
	for (const table of nftTables ?? []) {
		try {
			const args = ["delete", "table", ...table.split(" ")];
			await runner.run("nft", args, { signal, timeoutMs: NFT_TIMEOUT_MS });
			report.nftTables.push(table);
		} catch (error) {
			report.problems.push(`nft table ${table}: ${describeError(error)}`);
		}
	}
	if (nftTables === undefined) report.unseen.push("its nftables tables (nft is not installed)");
}

function ipvsLeftovers({ hasIpvsInterface, ipSets }: KubeProxyTraces): readonly Leftover[] {
	const hasSets = ipSets.length > 0;
	return [
		...(hasIpvsInterface ? [VIRTUAL_SERVERS, INTERFACE] : []),
		...(hasSets ? [{ what: `its ipsets (${ipSets.length})`, command: DESTROY_SETS }] : []),
	];
}

const VIRTUAL_SERVERS: Leftover = {
	what: "the virtual servers of IPVS (those of others would go too)",
	command: "ipvsadm --clear",
};

const INTERFACE: Leftover = {
	what: `the interface ${IPVS_INTERFACE}`,
	command: `ip link delete ${IPVS_INTERFACE}`,
};

const DESTROY_SETS =
	'for set in $(ipset list -name | grep "^KUBE-"); do ipset destroy "$set"; done';

class Report implements KubeProxyCleanupReport {
	readonly cleaned: CleanedTables[] = [];
	readonly nftTables: string[] = [];
	readonly kept: string[] = [];
	readonly left: Leftover[] = [];
	readonly unseen: string[] = [];
	readonly problems: string[] = [];

	/** Mostly the kernel lacks the variant, and then there are no rules. */
	unreadable(tools: XtablesTools, error: Error): void {
		if (errorCode(error) !== "TABLES_UNREADABLE") return;
		this.problems.push(`${programOf(tools)}: ${describeError(error)}`);
	}
}
