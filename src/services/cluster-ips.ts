import type { IpAddress } from "./address.ts";
import { isEqualList } from "./equal-service-ports.ts";
import type { IpRange } from "./ip-range.ts";
import type { Service, ServiceCidr } from "./objects.ts";

/** What is known of ClusterIPs beyond ServicePorts. The same object while it is equal. */
export interface ClusterIps {
	/** Of the Services that we serve, each once, sorted: a port that none of them has is refused. */
	readonly owned: readonly IpAddress[];
	/**
	 * Where the cluster takes ClusterIPs from, each once, sorted: an address in there that no Service
	 * has is nobody's. Empty where that is not known, or where other proxies serve Services, too.
	 */
	readonly ranges: readonly IpRange[];
}

export const NO_CLUSTER_IPS: ClusterIps = { owned: [], ranges: [] };

/** The ClusterIPs of these Services. */
export function ownedClusterIps(services: readonly Service[]): readonly IpAddress[] {
	return [...new Set(services.flatMap(({ clusterIps }) => clusterIps))].toSorted(byText);
}

/** The ranges that these ServiceCIDRs name. */
export function serviceRanges(serviceCidrs: Iterable<ServiceCidr>): readonly IpRange[] {
	return [...new Set([...serviceCidrs].flatMap(({ ranges }) => ranges))].toSorted(byText);
}

function byText(a: string, b: string): number {
	if (a === b) return 0;
	return a < b ? -1 : 1;
}

/** `before` itself where nothing changed. */
export function keepClusterIps(before: ClusterIps, after: ClusterIps): ClusterIps {
	const isSame = (a: string, b: string): boolean => a === b;
	return isEqualList(before.owned, after.owned, isSame) &&
		isEqualList(before.ranges, after.ranges, isSame)
		? before
		: after;
}
