import { type IpAddress, type IpFamily, ipFamilyOf } from "../services/address.ts";
import type { ClusterIps } from "../services/cluster-ips.ts";
import { familyOfRange, type IpRange, isInAnyRange, rangeAround } from "../services/ip-range.ts";
import { hostCidr } from "./capture-rules.ts";
import { rejectTarget } from "./reject-target.ts";

/** The filter chains for what no nat rule has led anywhere, whole. */
type ClusterIpChains = Readonly<
	Record<
		"KUBE-CLUSTER-IPS" | "KUBE-UNUSED-CLUSTER-IPS" | "KUBE-REFUSED-CLUSTER-IPS",
		readonly string[]
	>
>;

/**
 * ClusterIPs outside of every known Service range are looked for by ranges of this size: few rules
 * for every new flow of the host, whatever addresses the Services have.
 */
const GATE_PREFIX: Readonly<Record<IpFamily, number>> = { ipv4: 16, ipv6: 64 };

/**
 * What becomes of new flows to ClusterIPs that were not led to a proxy port: a port that the Service
 * does not have is refused, an address that no Service has is dropped. Both would else leave the node
 * by its default route, and the client would wait for its timeout.
 *
 * A flow to anything else passes one rule for each range of Services.
 */
export function clusterIpRules({ owned, ranges }: ClusterIps, family: IpFamily): ClusterIpChains {
	const ownedHere = owned.filter((address) => ipFamilyOf(address) === family);
	const rangesHere = ranges.filter((range) => familyOfRange(range) === family);
	const gates = gateRanges(ownedHere, rangesHere, family);
	if (gates.length === 0) {
		return {
			"KUBE-CLUSTER-IPS": [],
			"KUBE-UNUSED-CLUSTER-IPS": [],
			"KUBE-REFUSED-CLUSTER-IPS": [],
		};
	}
	return {
		"KUBE-CLUSTER-IPS": gates.map(
			(range) => `-A KUBE-CLUSTER-IPS -d ${range} -j KUBE-UNUSED-CLUSTER-IPS`,
		),
		"KUBE-UNUSED-CLUSTER-IPS": [
			// A ClusterIP that the node has on an interface of its own: who answers there is the node's matter.
			"-A KUBE-UNUSED-CLUSTER-IPS -m addrtype --dst-type LOCAL -j RETURN",
			...ownedHere.map(
				(address) =>
					`-A KUBE-UNUSED-CLUSTER-IPS -d ${hostCidr(address)} -j KUBE-REFUSED-CLUSTER-IPS`,
			),
			...rangesHere.map((range) => `-A KUBE-UNUSED-CLUSTER-IPS -d ${range} -j DROP`),
		],
		"KUBE-REFUSED-CLUSTER-IPS": [
			`-A KUBE-REFUSED-CLUSTER-IPS -p tcp -j ${rejectTarget("tcp", family)}`,
			`-A KUBE-REFUSED-CLUSTER-IPS -j ${rejectTarget("any", family)}`,
		],
	};
}

function gateRanges(
	owned: readonly IpAddress[],
	ranges: readonly IpRange[],
	family: IpFamily,
): readonly IpRange[] {
	const outside = owned.filter((address) => !isInAnyRange(address, ranges));
	return [...ranges, ...new Set(outside.map((each) => rangeAround(each, GATE_PREFIX[family])))];
}
