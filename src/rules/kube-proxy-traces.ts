import type { HostLook } from "./find-tools.ts";

/** What kube-proxy leaves in the kernel besides iptables chains. */
export interface KubeProxyTraces {
	/** "ip kube-proxy", "ip6 kube-proxy"; undefined: it cannot be seen without the program nft. */
	readonly nftTables: readonly string[] | undefined;
	/** The interface of its ipvs mode, which holds every Service address. */
	readonly hasIpvsInterface: boolean;
	/** Sets of its ipvs mode: "KUBE-CLUSTER-IP"; empty too where the program ipset is missing. */
	readonly ipSets: readonly string[];
}

export const IPVS_INTERFACE = "kube-ipvs0";

/** One command, in milliseconds. */
const COMMAND_TIMEOUT_MS = 15_000;

/** It has about twenty. */
const MAX_SETS = 100;

/** Looks; changes nothing and loads no module. Rejects only when the signal aborts, or the command runner does. */
export async function lookForKubeProxyTraces(look: HostLook): Promise<KubeProxyTraces> {
	const devices = (await look.readTextFile("/proc/net/dev")) ?? "";
	return {
		nftTables: (await linesOf(look, "nft", ["list", "tables"]))?.flatMap((line) => {
			const table = /^table (ip6? kube-proxy)$/.exec(line.trim())?.[1];
			return table === undefined ? [] : [table];
		}),
		hasIpvsInterface: new RegExp(`^\\s*${IPVS_INTERFACE}:`, "m").test(devices),
		ipSets: await ipSetsOf(look),
	};
}

async function ipSetsOf(look: HostLook): Promise<readonly string[]> {
	// Asking loads the module where nobody uses it.
	if ((await look.readTextFile("/sys/module/ip_set/parameters/max_sets")) === undefined) return [];
	const names = (await linesOf(look, "ipset", ["list", "-name"])) ?? [];
	return names.filter((name) => name.startsWith("KUBE-")).slice(0, MAX_SETS);
}

/** @returns undefined where the command cannot be run, or says no. */
async function linesOf(
	{ runner, signal }: HostLook,
	file: string,
	args: readonly string[],
): Promise<readonly string[] | undefined> {
	const lines: string[] = [];
	const onLine = (line: string): void => {
		lines.push(line);
	};
	try {
		await runner.run(file, args, { signal, timeoutMs: COMMAND_TIMEOUT_MS, onLine });
		return lines;
	} catch {
		signal.throwIfAborted();
		return undefined;
	}
}
