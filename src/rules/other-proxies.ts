import type { HostLook, HostTools } from "./find-tools.ts";
import { IPVS_INTERFACE, lookForKubeProxyTraces } from "./kube-proxy-traces.ts";

/** A sign that another Service proxy is, or was, at work on this host. */
export interface OtherProxyTrace {
	readonly proxy: "kube-proxy" | "cilium";
	/** As people read it: "chain KUBE-SERVICES (iptables-nft)". */
	readonly what: string;
}

/**
 * Looks for the signs of other Service proxies, in both variants and families; changes nothing.
 *
 * They cannot tell a proxy that runs from one that left without cleaning up.
 *
 * @param host as findTools() found it.
 */
export async function findOtherProxies(
	{ found }: Pick<HostTools, "found">,
	look: HostLook,
): Promise<readonly OtherProxyTrace[]> {
	const chains = found.flatMap(({ tools, saved }): readonly OtherProxyTrace[] =>
		saved instanceof Error
			? []
			: saved.otherProxyChains.map((chain) => ({
					proxy: chain.startsWith("CILIUM_") ? "cilium" : "kube-proxy",
					what: `chain ${chain} (${tools.save.replace(/-save$/, "")})`,
				})),
	);
	const { nftTables = [], hasIpvsInterface, ipSets } = await lookForKubeProxyTraces(look);
	const [firstSet, ...moreSets] = ipSets;
	const others = [
		...nftTables.map((table) => `nft table ${table}`),
		...(hasIpvsInterface ? [`interface ${IPVS_INTERFACE}`] : []),
		...(firstSet === undefined ? [] : [`ipset ${firstSet}${more(moreSets.length)}`]),
	];
	return [...chains, ...others.map((what) => ({ proxy: "kube-proxy", what }) as const)];
}

function more(count: number): string {
	return count === 0 ? "" : ` and ${count} more`;
}
