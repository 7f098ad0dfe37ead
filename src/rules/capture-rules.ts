import {
	compareIpAddresses,
	formatSocketAddress,
	type IpAddress,
	type IpFamily,
} from "../services/address.ts";
import { familyOfRange, type IpRange } from "../services/ip-range.ts";
import type { NodeNetwork, NodePortAddresses } from "../services/node-network.ts";
import type { Binding, Clients } from "../services/service-port.ts";
import type { OwnChain } from "./chains.ts";
import { ruleComment } from "./rule-comment.ts";

/** The nat chains, whole. */
type CaptureChains = Readonly<
	Record<
		| "KUBE-PORTALS-CONTAINER"
		| "KUBE-PORTALS-HOST"
		| "KUBE-NODEPORT-CONTAINER"
		| "KUBE-NODEPORT-HOST",
		readonly string[]
	>
>;

/** A destination that clients dial, as iptables matches it. */
interface Destination {
	/** "-d 10.96.0.10/32", or empty: any address that led into the chain. */
	readonly match: string;
	readonly port: number;
	readonly clients: Clients;
}

const LOOPBACK: Readonly<Record<IpFamily, string>> = { ipv4: "127.0.0.0/8", ipv6: "::1/128" };

/**
 * The rules that lead new flows to proxy ports, for the bindings of one family.
 *
 * Rules for this node's Pods stand before those for everybody in the same chain: the first one that
 * matches decides.
 */
export function captureRules(
	bindings: readonly Binding[],
	family: IpFamily,
	network: NodeNetwork,
): CaptureChains {
	const portals = (binding: Binding): readonly Destination[] =>
		binding.virtualAddresses
			.toSorted((a, b) => compareIpAddresses(a.address, b.address))
			.map(({ address, clients }) => ({
				match: `-d ${hostCidr(address)}`,
				port: binding.port,
				clients,
			}));
	const nodePorts = ({ nodePort }: Binding, isHost: boolean): readonly Destination[] =>
		nodePort === undefined
			? []
			: nodePortMatches(network.nodePorts, family, isHost).map((match) => ({ match, ...nodePort }));
	return {
		"KUBE-PORTALS-CONTAINER": arriving("KUBE-PORTALS-CONTAINER", bindings, portals, network),
		"KUBE-PORTALS-HOST": leaving("KUBE-PORTALS-HOST", bindings, portals),
		"KUBE-NODEPORT-CONTAINER": exceptToLoopback(
			family,
			arriving(
				"KUBE-NODEPORT-CONTAINER",
				bindings,
				(binding) => nodePorts(binding, false),
				network,
			),
		),
		"KUBE-NODEPORT-HOST": leaving("KUBE-NODEPORT-HOST", bindings, (binding) =>
			nodePorts(binding, true),
		),
	};
}

/**
 * Nobody outside of the node has business with its loopback addresses. The kernel would drop such a
 * packet, but only after this chain: NAT to another address of the node would save it, and a node
 * port that is for loopback alone would be open to every neighbour on a link.
 */
function exceptToLoopback(family: IpFamily, rules: readonly string[]): readonly string[] {
	if (rules.length === 0) return rules;
	return [`-A KUBE-NODEPORT-CONTAINER -d ${LOOPBACK[family]} -j RETURN`, ...rules];
}

/** Rules for packets that come in by an interface. */
function arriving(
	chain: OwnChain,
	bindings: readonly Binding[],
	destinationsOf: (binding: Binding) => readonly Destination[],
	network: NodeNetwork,
): readonly string[] {
	const ofPods: string[] = [];
	const ofAll: string[] = [];
	for (const binding of bindings) {
		const target = arrivalTarget(binding, network);
		const pods = podMatches(network, binding.family);
		for (const destination of destinationsOf(binding)) {
			if (destination.clients !== "inside") ofAll.push(rule(chain, binding, destination, target));
			else {
				for (const pod of pods) ofPods.push(rule(chain, binding, destination, target, pod));
			}
		}
	}
	return [...ofPods, ...ofAll];
}

/** Rules for packets that processes of this node send. */
function leaving(
	chain: OwnChain,
	bindings: readonly Binding[],
	destinationsOf: (binding: Binding) => readonly Destination[],
): readonly string[] {
	return bindings.flatMap((binding) =>
		destinationsOf(binding)
			.filter(({ clients }) => clients !== "outside")
			.map((destination) => rule(chain, binding, destination, listenerTarget(binding))),
	);
}

function rule(
	chain: OwnChain,
	{ key, protocol }: Binding,
	{ match, port }: Destination,
	target: string,
	source?: string,
): string {
	const matches = [
		...(source === undefined ? [] : [source]),
		...(match === "" ? [] : [match]),
		`-p ${protocol} -m ${protocol} --dport ${port}`,
		`-m comment --comment "${ruleComment(key)}"`,
	];
	return `-A ${chain} ${matches.join(" ")} -j ${target}`;
}

function arrivalTarget(binding: Binding, network: NodeNetwork): string {
	const address = binding.listenAddress ?? network.arrivalAddress[binding.protocol][binding.family];
	return listenerTarget({ ...binding, listenAddress: address });
}

function listenerTarget({
	listenAddress,
	proxyPort,
}: Pick<Binding, "listenAddress" | "proxyPort">): string {
	return listenAddress === undefined
		? `REDIRECT --to-ports ${proxyPort}`
		: `DNAT --to-destination ${formatSocketAddress(listenAddress, proxyPort)}`;
}

function podMatches({ pods }: NodeNetwork, family: IpFamily): readonly string[] {
	return [
		...pods.ranges.filter((range) => familyOfRange(range) === family).map((range) => `-s ${range}`),
		...pods.interfaces.map((name) => `-i ${name}`),
	];
}

/** The jumps into the node-port chains match addresses of the node only. */
function nodePortMatches(
	{ ranges, onLoopback }: NodePortAddresses,
	family: IpFamily,
	isHost: boolean,
): readonly string[] {
	const selected: "all" | readonly IpRange[] = ranges[family];
	if (selected !== "all") return selected.map((range) => `-d ${range}`);
	return [isHost && !onLoopback ? `! -d ${LOOPBACK[family]}` : ""];
}

/** "10.96.0.10/32", "fd10:96::a/128": as iptables prints one address. */
export function hostCidr(address: IpAddress): string {
	return address.includes(":") ? `${address}/128` : `${address}/32`;
}
