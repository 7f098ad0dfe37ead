import type { IpAddress, IpFamily } from "../services/address.ts";
import { isInAnyRange } from "../services/ip-range.ts";
import type { NodeNetwork } from "../services/node-network.ts";
import type { Port } from "../services/port.ts";
import type { Binding, Protocol, VirtualAddress } from "../services/service-port.ts";
import { hostCidr } from "./capture-rules.ts";
import { rejectTarget } from "./reject-target.ts";
import { ruleComment } from "./rule-comment.ts";

/** The most ports that one multiport match takes: XT_MULTI_PORTS of the kernel. */
const PORTS_PER_RULE = 15;

/** True for the packets of flows that a nat rule has led elsewhere. */
const REDIRECTED = "-m conntrack --ctstate DNAT";

/** What may reach the proxy ports; docs/packets.md explains the order. */
export function admissionRules(
	bindings: readonly Binding[],
	family: IpFamily,
	healthCheckPorts: readonly Port[],
): readonly string[] {
	const withVerdict = (verdict: Binding["verdict"]): readonly PortGroup[] =>
		groupPorts(bindings.filter((binding) => binding.verdict === verdict));
	const judgesSources = bindings.some(({ virtualAddresses }) =>
		virtualAddresses.some(({ sourceRanges }) => sourceRanges.length > 0),
	);
	return [
		// An ICMP error about a redirected flow is RELATED to it and carries its DNAT mark.
		`-m conntrack --ctstate RELATED,ESTABLISHED ${REDIRECTED} -j ACCEPT`,
		"-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
		...(judgesSources ? [`${REDIRECTED} -j KUBE-LB-SOURCE-RANGES`] : []),
		...withVerdict("reject").map(
			(group) => `${portMatch(group)} ${REDIRECTED} -j ${rejectTarget(group.protocol, family)}`,
		),
		...withVerdict("drop").map((group) => `${portMatch(group)} ${REDIRECTED} -j DROP`),
		...withVerdict("serve").map((group) => `${portMatch(group)} ${REDIRECTED} -j ACCEPT`),
		...groupPorts(bindings).map((group) => `${portMatch(group, "! -i lo")} -j DROP`),
		...chunks(uniqueSorted(healthCheckPorts)).map(
			(ports) => `-p tcp -m multiport --dports ${ports.join(",")} -j ACCEPT`,
		),
	].map((spec) => `-A KUBE-NODEPORT-NON-LOCAL ${spec}`);
}

/**
 * Who may come in by a load balancer's address. A packet's destination has been changed by now, so
 * that conntrack has to say which address was asked; the source is still the client's.
 */
export function sourceRangeRules(
	bindings: readonly Binding[],
	network: NodeNetwork,
): readonly string[] {
	const rules = new Map<string, readonly string[]>();
	for (const binding of bindings) {
		for (const virtual of binding.virtualAddresses) {
			if (virtual.sourceRanges.length === 0) continue;
			// Both pools of a port have the same address.
			const { address } = virtual;
			const asked = `--ctorigdst ${address} --ctorigdstport ${binding.port}`;
			const match = `-p ${binding.protocol} -m conntrack ${asked}`;
			const comment = `-m comment --comment "${ruleComment(binding.key)}"`;
			rules.set(match, [
				...allowedSources(virtual, network).map(
					(source) => `-s ${source} ${match} ${comment} -j RETURN`,
				),
				`${match} ${comment} -j DROP`,
			]);
		}
	}
	return [...rules.values()].flat().map((spec) => `-A KUBE-LB-SOURCE-RANGES ${spec}`);
}

/** Where a load balancer's address is on the node itself, the node dials it from that very address. */
function allowedSources(
	{ address, sourceRanges }: VirtualAddress,
	{ addresses }: NodeNetwork,
): readonly string[] {
	const isNodeIn = [...addresses].some((own) => isInAnyRange(own, sourceRanges));
	return isNodeIn ? [...sourceRanges, hostCidr(address)] : sourceRanges;
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
			chunks(uniqueSorted(ports)).map((part) => ({
				protocol,
				listenAddress,
				ports: part,
			})),
		);
}

function uniqueSorted(ports: Iterable<Port>): readonly Port[] {
	return [...new Set(ports)].toSorted((a, b) => a - b);
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
