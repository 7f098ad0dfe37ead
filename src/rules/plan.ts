import type { IpFamily } from "../services/address.ts";
import { type ClusterIps, NO_CLUSTER_IPS } from "../services/cluster-ips.ts";
import type { NodeNetwork } from "../services/node-network.ts";
import type { Port } from "../services/port.ts";
import type { Binding, ServicePortKey } from "../services/service-port.ts";
import { admissionRules, sourceRangeRules } from "./admission-rules.ts";
import { captureRules } from "./capture-rules.ts";
import type { OwnChain } from "./chains.ts";
import { clusterIpRules } from "./cluster-ip-rules.ts";
import { type UdpTarget, udpTargets } from "./udp-targets.ts";

/**
 * The room of packet rules: Bindings in, rules in the kernel out.
 *
 * This file puts together what our chains hold (capture-rules.ts: the nat table, admission-rules.ts and
 * cluster-ip-rules.ts: the filter table); restore-text.ts writes it as input for iptables-restore,
 * family-rules.ts makes it so and rule-keeper.ts is what the daemon drives. The room owns the
 * chains of chains.ts, the jumps to them and conntrack entries of our UDP flows, and must never
 * capture without a destination or touch a rule that is not its own. docs/packets.md: why.
 */

/** What packet rules are made of. */
export interface WantedRules {
	/** At most one per key, of any family. */
	readonly bindings: readonly Binding[];
	readonly network: NodeNetwork;
	/** Ports of this node at which load balancers ask after Services: they are let in. */
	readonly healthCheckPorts: readonly Port[];
	/** Which flows are refused or dropped that nothing was led from. */
	readonly clusterIps: ClusterIps;
}

/** The whole wanted content of our chains in one family. */
export interface FamilyPlan {
	readonly family: IpFamily;
	/** All our chains, each with its rules in order, as "-A CHAIN ...". */
	readonly chains: ReadonlyMap<OwnChain, readonly string[]>;
	/** All rules in one string: equal plans have equal texts. */
	readonly text: string;
	/** The ServicePorts that the nat rules lead to. */
	readonly keys: ReadonlySet<ServicePortKey>;
	/** The bindings of this family, ordered by key. */
	readonly bindings: readonly Binding[];
	/** Where UDP flows belong, address by address. */
	readonly udp: readonly UdpTarget[];
	/** What it was made of; the bindings of the other family too. */
	readonly wanted: WantedRules;
}

/**
 * Decides the content of our chains for one family.
 *
 * Pure, and stable: the same bindings in any order give the same plan.
 */
export function planRules(wanted: WantedRules, family: IpFamily): FamilyPlan {
	const own = wanted.bindings.filter((binding) => binding.family === family).toSorted(byKey);
	return toPlan(family, own, wanted, captureRules(own, family, wanted.network));
}

/**
 * The same plan without anything that captures or refuses new connections.
 *
 * Admission stays: flows that were redirected before are still let in.
 */
export function withoutCapture(plan: FamilyPlan): FamilyPlan {
	const { family, bindings, wanted } = plan;
	const nothing = captureRules([], family, wanted.network);
	const left = { ...wanted, clusterIps: NO_CLUSTER_IPS };
	return { ...toPlan(family, bindings, left, nothing), keys: new Set() };
}

function toPlan(
	family: IpFamily,
	bindings: readonly Binding[],
	wanted: WantedRules,
	captures: ReturnType<typeof captureRules>,
): FamilyPlan {
	const { network, healthCheckPorts } = wanted;
	const refusals = clusterIpRules(wanted.clusterIps, family);
	const chains = new Map<OwnChain, readonly string[]>([
		["KUBE-NODEPORT-NON-LOCAL", admissionRules(bindings, family, healthCheckPorts)],
		["KUBE-LB-SOURCE-RANGES", sourceRangeRules(bindings, network)],
		["KUBE-CLUSTER-IPS", refusals["KUBE-CLUSTER-IPS"]],
		["KUBE-UNUSED-CLUSTER-IPS", refusals["KUBE-UNUSED-CLUSTER-IPS"]],
		["KUBE-REFUSED-CLUSTER-IPS", refusals["KUBE-REFUSED-CLUSTER-IPS"]],
		["KUBE-PORTALS-CONTAINER", captures["KUBE-PORTALS-CONTAINER"]],
		["KUBE-PORTALS-HOST", captures["KUBE-PORTALS-HOST"]],
		["KUBE-NODEPORT-CONTAINER", captures["KUBE-NODEPORT-CONTAINER"]],
		["KUBE-NODEPORT-HOST", captures["KUBE-NODEPORT-HOST"]],
	]);
	return {
		family,
		chains,
		text: [...chains.values()].map((rules) => rules.join("\n")).join("\n"),
		keys: new Set(bindings.map(({ key }) => key)),
		bindings,
		udp: udpTargets(bindings, family, network),
		wanted,
	};
}

function byKey(a: Binding, b: Binding): number {
	if (a.key === b.key) return 0;
	return a.key < b.key ? -1 : 1;
}
