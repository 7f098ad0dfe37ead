import {
	compareIpAddresses,
	formatSocketAddress,
	type IpAddress,
	type IpFamily,
} from "../services/address.ts";
import type { Port } from "../services/port.ts";
import type { Binding, Protocol, ServicePortKey } from "../services/service-port.ts";
import type { OwnChain } from "./chains.ts";
import { ruleComment } from "./rule-comment.ts";

/**
 * The room of packet rules: Bindings in, rules in the kernel out.
 *
 * This file decides what our chains hold; restore-text.ts writes it as input for iptables-restore,
 * family-rules.ts makes it so and rule-keeper.ts is what the daemon drives. The room owns the five
 * chains of chains.ts, the jumps to them and conntrack entries of our UDP flows, and must never
 * write a rule without a destination or touch a rule that is not its own. docs/packets.md: why.
 */

/** The whole wanted content of our chains in one family. */
export interface FamilyPlan {
	readonly family: IpFamily;
	/** All five chains, each with its rules in order, as "-A CHAIN ...". */
	readonly chains: ReadonlyMap<OwnChain, readonly string[]>;
	/** All rules in one string: equal plans have equal texts. */
	readonly text: string;
	/** The ServicePorts that the nat rules lead to. */
	readonly keys: ReadonlySet<ServicePortKey>;
	/** The bindings of this family, ordered by key. */
	readonly bindings: readonly Binding[];
}

/** The most ports that one multiport match takes: XT_MULTI_PORTS of the kernel. */
const PORTS_PER_RULE = 15;

/**
 * Decides the content of our chains for the bindings of one family.
 *
 * Pure, and stable: the same bindings in any order give the same plan.
 *
 * @param bindings at most one per key; those of the other family are left out.
 */
export function planRules(bindings: readonly Binding[], family: IpFamily): FamilyPlan {
	const own = bindings.filter((binding) => binding.family === family).toSorted(byKey);
	return toPlan(family, own, own.flatMap(captureSpecs));
}

/**
 * The same plan without anything that captures new connections.
 *
 * The filter chain stays: flows that were redirected before are still let in.
 */
export function withoutCapture(plan: FamilyPlan): FamilyPlan {
	return { ...toPlan(plan.family, plan.bindings, []), keys: new Set() };
}

function toPlan(
	family: IpFamily,
	bindings: readonly Binding[],
	captures: readonly string[],
): FamilyPlan {
	const chains = new Map<OwnChain, readonly string[]>([
		["KUBE-NODEPORT-NON-LOCAL", admissionRules(bindings, family)],
		["KUBE-PORTALS-CONTAINER", captures.map((spec) => `-A KUBE-PORTALS-CONTAINER ${spec}`)],
		["KUBE-PORTALS-HOST", captures.map((spec) => `-A KUBE-PORTALS-HOST ${spec}`)],
		["KUBE-NODEPORT-CONTAINER", []],
		["KUBE-NODEPORT-HOST", []],
	]);
	return {
		family,
		chains,
		text: [...chains.values()].map((rules) => rules.join("\n")).join("\n"),
		keys: new Set(bindings.map(({ key }) => key)),
		bindings,
	};
}

function captureSpecs(binding: Binding): string[] {
	const { key, protocol, port, virtualAddresses } = binding;
	const target = captureTarget(binding);
	const comment = ruleComment(key);
	return virtualAddresses
		.map(({ address }) => address)
		.toSorted(compareIpAddresses)
		.map(
			(address) =>
				`-d ${hostCidr(address)} -p ${protocol} -m ${protocol} --dport ${port} ` +
				`-m comment --comment "${comment}" -j ${target}`,
		);
}

function captureTarget({ listenAddress, proxyPort }: Binding): string {
	return listenAddress === undefined
		? `REDIRECT --to-ports ${proxyPort}`
		: `DNAT --to-destination ${formatSocketAddress(listenAddress, proxyPort)}`;
}

/** What may reach the proxy ports; docs/packets.md explains the order. */
function admissionRules(bindings: readonly Binding[], family: IpFamily): readonly string[] {
	const refusing = groupPorts(bindings.filter(({ refuses }) => refuses));
	const serving = groupPorts(bindings.filter(({ refuses }) => !refuses));
	const all = groupPorts(bindings);
	const redirected = "-m conntrack --ctstate DNAT";
	return [
		// An ICMP error about a redirected flow is RELATED to it and carries its DNAT mark.
		`-m conntrack --ctstate RELATED,ESTABLISHED ${redirected} -j ACCEPT`,
		"-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
		...refusing.map((group) => `${portMatch(group)} ${redirected} -j ${rejection(group, family)}`),
		...serving.map((group) => `${portMatch(group)} ${redirected} -j ACCEPT`),
		...all.map((group) => `${portMatch(group, "! -i lo")} -j DROP`),
	].map((spec) => `-A KUBE-NODEPORT-NON-LOCAL ${spec}`);
}

/** Up to 15 proxy ports of one protocol behind one listen address. */
interface PortGroup {
	readonly protocol: Protocol;
	readonly listenAddress: IpAddress | undefined;
	/** Ascending, each once. */
	readonly ports: readonly Port[];
}

function groupPorts(bindings: readonly Binding[]): readonly PortGroup[] {
	const groups = new Map<string, Omit<PortGroup, "ports"> & { ports: Set<Port> }>();
	for (const { protocol, listenAddress, proxyPort } of bindings) {
		const id = `${protocol} ${listenAddress ?? ""}`;
		const group = groups.get(id) ?? { protocol, listenAddress, ports: new Set<Port>() };
		groups.set(id, group);
		group.ports.add(proxyPort);
	}
	return [...groups.entries()]
		.toSorted(([a], [b]) => (a < b ? -1 : 1))
		.flatMap(([, { protocol, listenAddress, ports }]) =>
			chunks([...ports].toSorted((a, b) => a - b)).map((part) => ({
				protocol,
				listenAddress,
				ports: part,
			})),
		);
}

function chunks(ports: readonly Port[]): readonly (readonly Port[])[] {
	const count = Math.ceil(ports.length / PORTS_PER_RULE);
	return Array.from({ length: count }, (_, index) =>
		ports.slice(index * PORTS_PER_RULE, (index + 1) * PORTS_PER_RULE),
	);
}

/** A listener on one address does not answer for the port number on the node's other addresses. */
function portMatch({ protocol, listenAddress, ports }: PortGroup, inInterface?: string): string {
	return [
		...(listenAddress === undefined ? [] : [`-d ${hostCidr(listenAddress)}`]),
		...(inInterface === undefined ? [] : [inInterface]),
		`-p ${protocol} -m multiport --dports ${ports.join(",")}`,
	].join(" ");
}

function rejection({ protocol }: PortGroup, family: IpFamily): string {
	if (protocol === "tcp") return "REJECT --reject-with tcp-reset";
	return family === "ipv4"
		? "REJECT --reject-with icmp-port-unreachable"
		: "REJECT --reject-with icmp6-port-unreachable";
}

function hostCidr(address: IpAddress): string {
	return address.includes(":") ? `${address}/128` : `${address}/32`;
}

function byKey(a: Binding, b: Binding): number {
	if (a.key === b.key) return 0;
	return a.key < b.key ? -1 : 1;
}
