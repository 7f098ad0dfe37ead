import {
	compareIpAddresses,
	type IpAddress,
	type IpFamily,
	ipFamilyOf,
	parseIpAddress,
} from "../services/address.ts";
import type { Interfaces } from "./node-network.ts";

export interface NodeAddressInputs {
	readonly interfaces: Interfaces;
	/** What the cluster says of this node, best first; empty without a cluster. */
	readonly clusterAddresses: readonly IpAddress[];
	/** Interfaces that hold a default route: they are there to stay, unlike those of bridges. */
	readonly uplinks: readonly string[];
	/** The address in use until now: kept as long as the node has it, so that nothing moves. */
	readonly current: IpAddress | undefined;
}

/**
 * Chooses the one node address of a family that packet rules point at where they have to name one, and
 * that listeners bind to which cannot be on all of them.
 *
 * Any address of the node serves, on whichever interface: packets for it are local all the same.
 * So what counts is that it stays: the one in use, else the one by which the cluster knows the
 * node, else the lowest on an interface with a default route, else the lowest on any other.
 *
 * @returns undefined while the node has no address beyond loopback and link-local ones.
 */
export function chooseNodeAddress(
	family: IpFamily,
	{ interfaces, clusterAddresses, uplinks, current }: NodeAddressInputs,
): IpAddress | undefined {
	const local = usableAddresses(interfaces, uplinks, family);
	if (current !== undefined && local.includes(current)) return current;
	return clusterAddresses.find((address) => local.includes(address)) ?? local[0];
}

/**
 * Names of the interfaces with a default route.
 *
 * @param procNetRoute content of /proc/net/route: a head line, then interface, destination, ...
 */
export function uplinksOf(procNetRoute: string): readonly string[] {
	return procNetRoute
		.split("\n")
		.slice(1)
		.map((line) => line.trim().split(/\s+/))
		.filter(([, destination, , , , , , mask]) => destination === "00000000" && mask === "00000000")
		.map(([name]) => name ?? "");
}

function usableAddresses(
	interfaces: Interfaces,
	uplinks: readonly string[],
	family: IpFamily,
): readonly IpAddress[] {
	const names = Object.keys(interfaces).toSorted((a, b) => (a < b ? -1 : 1));
	const ordered = [
		...names.filter((name) => uplinks.includes(name)),
		...names.filter((name) => !uplinks.includes(name)),
	];
	return ordered.flatMap((name) =>
		(interfaces[name] ?? [])
			.filter(({ internal }) => !internal)
			.map(({ address }) => parseIpAddress(address))
			.filter((address) => address !== undefined)
			.filter((address) => ipFamilyOf(address) === family && !isLinkLocal(address))
			.toSorted(compareIpAddresses),
	);
}

function isLinkLocal(address: IpAddress): boolean {
	return address.startsWith("169.254.") || /^fe[89ab]/.test(address);
}
