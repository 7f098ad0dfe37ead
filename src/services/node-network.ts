import { type IpAddress, type IpFamily, ipFamilyOf } from "./address.ts";
import { type IpRange, isInAnyRange } from "./ip-range.ts";
import type { Protocol } from "./service-port.ts";

/**
 * What packet rules depend on besides Bindings: this node's own network. The same object while
 * nothing changed.
 */
export interface NodeNetwork {
	/**
	 * The node address that what arrives for a listener on all addresses is led to by DNAT; undefined: by
	 * REDIRECT, which drops what comes in on an interface without an address. For TCP, of which a packet
	 * is sent again, that is done until there is such an interface.
	 */
	readonly arrivalAddress: Readonly<
		Record<Protocol, Readonly<Record<IpFamily, IpAddress | undefined>>>
	>;
	/** Every address of the node's interfaces, loopback too. */
	readonly addresses: ReadonlySet<IpAddress>;
	readonly nodePorts: NodePortAddresses;
	readonly pods: PodSources;
}

/** On which of the node's own addresses node ports are served, by family. */
export interface NodePortAddresses {
	/** "all", or those in these ranges: none where there is no range. */
	readonly ranges: Readonly<Record<IpFamily, "all" | readonly IpRange[]>>;
	/** Whether "all" has loopback addresses among it. */
	readonly onLoopback: boolean;
}

/** How packets of this node's Pods are told from those that come from outside; empty: not at all. */
export interface PodSources {
	readonly ranges: readonly IpRange[];
	/** As iptables takes them: "cni0", or "cali+" for all that begin so. */
	readonly interfaces: readonly string[];
}

/** A node of which nothing is known: node ports on every address, nobody is a Pod. */
export const PLAIN_NETWORK: NodeNetwork = {
	arrivalAddress: {
		tcp: { ipv4: undefined, ipv6: undefined },
		udp: { ipv4: undefined, ipv6: undefined },
	},
	addresses: new Set(),
	nodePorts: { ranges: { ipv4: "all", ipv6: "all" }, onLoopback: true },
	pods: { ranges: [], interfaces: [] },
};

/** The node's own addresses that node ports of a family are on. */
export function addressesOfNodePorts(
	{ addresses, nodePorts }: NodeNetwork,
	family: IpFamily,
): readonly IpAddress[] {
	const selected = nodePorts.ranges[family];
	return [...addresses].filter((address) => {
		if (ipFamilyOf(address) !== family) return false;
		if (selected !== "all") return isInAnyRange(address, selected);
		return nodePorts.onLoopback || !isLoopback(address);
	});
}

function isLoopback(address: IpAddress): boolean {
	return address === "::1" || address.startsWith("127.");
}
