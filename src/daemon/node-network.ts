import type { LocalDetection, NodePortSelection } from "../config/config.ts";
import {
	compareIpAddresses,
	type IpAddress,
	type IpFamily,
	ipFamilyOf,
	parseIpAddress,
} from "../services/address.ts";
import {
	broadcastOf,
	familyOfRange,
	type IpRange,
	parseIpRange,
	rangeOf,
} from "../services/ip-range.ts";
import type { NodePortAddresses, PodSources } from "../services/node-network.ts";

/** The addresses of this node's interfaces, as `os.networkInterfaces()` gives them. */
export type Interfaces = Readonly<Record<string, readonly InterfaceAddress[] | undefined>>;

interface InterfaceAddress {
	readonly address: string;
	readonly internal: boolean;
	/** "10.1.0.1/24". */
	readonly cidr?: string | null;
}

/** An interface that packets may come in on by itself: up, and no part of a bridge or bond. */
export interface Link {
	readonly name: string;
	/** Whether the kernel takes IPv6 packets on it. */
	readonly hasIpv6: boolean;
}

const LOOPBACK: Readonly<Record<IpFamily, IpRange | undefined>> = {
	ipv4: parseIpRange("127.0.0.0/8"),
	ipv6: parseIpRange("::1/128"),
};

/** All addresses of the node; equal sets are in the same order. */
export function addressesOf(interfaces: Interfaces): readonly IpAddress[] {
	const found = Object.values(interfaces).flatMap((addresses) =>
		(addresses ?? []).map(({ address }) => parseIpAddress(address)),
	);
	return [...new Set(found.filter((address) => address !== undefined))].toSorted(
		compareIpAddresses,
	);
}

/** Where a packet would go to everybody on a link. */
export function broadcastAddressesOf(interfaces: Interfaces): readonly IpAddress[] {
	return Object.values(interfaces).flatMap((addresses) =>
		(addresses ?? []).flatMap(({ cidr }) => {
			const range = parseIpRange(cidr ?? "");
			const broadcast = range === undefined ? undefined : broadcastOf(range);
			return broadcast === undefined ? [] : [broadcast];
		}),
	);
}

/** Names of the interfaces that packets of a family may come in on and that have no address of it. */
export function linksWithoutAddress(
	links: readonly Link[],
	interfaces: Interfaces,
	family: IpFamily,
): readonly string[] {
	const named = new Set(
		Object.entries(interfaces)
			.filter(([, addresses]) =>
				addresses?.some(({ address }) => address.includes(":") === (family === "ipv6")),
			)
			// The label of an address, "eth0:1", begins with the interface's name.
			.map(([name]) => name.replace(/:.*$/, "")),
	);
	return links
		.filter(({ name, hasIpv6 }) => !named.has(name) && (family === "ipv4" || hasIpv6))
		.map(({ name }) => name);
}

/**
 * On which addresses of the node node ports are.
 *
 * @param primary the address by which the node is known, of each family.
 */
export function nodePortAddresses(
	selection: NodePortSelection,
	localhostNodePorts: boolean,
	primary: Readonly<Record<IpFamily, IpAddress | undefined>>,
): NodePortAddresses {
	return {
		ranges: {
			ipv4: selectedRanges(selection, "ipv4", primary.ipv4),
			ipv6: selectedRanges(selection, "ipv6", primary.ipv6),
		},
		onLoopback: localhostNodePorts,
	};
}

function selectedRanges(
	{ isAll, isPrimary, isLocalhost, ranges }: NodePortSelection,
	family: IpFamily,
	primary: IpAddress | undefined,
): "all" | readonly IpRange[] {
	if (isAll) return "all";
	const own = ranges.filter((range) => familyOfRange(range) === family);
	const named = [
		...(isPrimary && primary !== undefined ? [rangeOf(primary)] : []),
		...(isLocalhost ? [LOOPBACK[family]] : []),
	].filter((range) => range !== undefined);
	// As kube-proxy has it: ranges of one family say nothing about the other.
	const isSilent = own.length === 0 && !isPrimary && !isLocalhost;
	return isSilent ? "all" : [...own, ...named];
}

/** @param nodeRanges the Node's podCIDRs, as far as the cluster has told. */
export function podSources(
	{ mode, clusterRanges, bridgeInterface, interfaceNamePrefix }: LocalDetection,
	nodeRanges: readonly IpRange[],
): PodSources {
	switch (mode) {
		case "ClusterCIDR":
			return { ranges: clusterRanges, interfaces: [] };
		case "NodeCIDR":
			return { ranges: nodeRanges, interfaces: [] };
		case "BridgeInterface":
			return { ranges: [], interfaces: bridgeInterface === undefined ? [] : [bridgeInterface] };
		case "InterfaceNamePrefix":
			return {
				ranges: [],
				interfaces: interfaceNamePrefix === undefined ? [] : [`${interfaceNamePrefix}+`],
			};
	}
}

/** The address of each family by which the cluster knows the node, else the one that was chosen. */
export function primaryAddresses(
	clusterAddresses: readonly IpAddress[],
	chosen: Readonly<Record<IpFamily, IpAddress | undefined>>,
): Readonly<Record<IpFamily, IpAddress | undefined>> {
	const of = (family: IpFamily): IpAddress | undefined =>
		clusterAddresses.find((address) => ipFamilyOf(address) === family) ?? chosen[family];
	return { ipv4: of("ipv4"), ipv6: of("ipv6") };
}
