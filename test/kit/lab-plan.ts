/** Addresses of one namespace on the link to the node, and the node's own on that link. */
export interface LinkAddresses {
	readonly ipv4: string;
	readonly ipv6: string;
	readonly nodeIpv4: string;
	readonly nodeIpv6: string;
}

/** One namespace beside the node. */
export interface PeerPlan {
	/** "client", "outside", "ep1". */
	readonly role: string;
	/** Name of the network namespace. */
	readonly namespace: string;
	/** Name of the node's end of the link; the peer's end is always eth0. */
	readonly nodeInterface: string;
	readonly addresses: LinkAddresses;
}

export interface LabPlan {
	readonly nodeNamespace: string;
	/** The client, outside, then the endpoints in order. */
	readonly peers: readonly PeerPlan[];
}

/** Endpoints have 10.2.i.2: i is one byte. */
const MAX_ENDPOINTS = 200;

/**
 * Decides names and addresses of a lab: client 10.1.0.2, outside 10.3.0.2, endpoint i 10.2.i.2, the
 * node .1 of each; IPv6 likewise in fd10:….
 *
 * @param prefix what the names of all namespaces begin with.
 * @throws {RangeError} for more endpoints than the address plan holds.
 */
export function planLab(prefix: string, endpoints: number): LabPlan {
	if (!Number.isInteger(endpoints) || endpoints < 0 || endpoints > MAX_ENDPOINTS) {
		throw new RangeError(
			`Cannot build a lab: wanted 0..${MAX_ENDPOINTS} endpoints, got ${endpoints}`,
		);
	}
	const peer = (role: string, net4: string, net6: string): PeerPlan => ({
		role,
		namespace: `${prefix}${role}`,
		nodeInterface: `to-${role}`,
		addresses: {
			ipv4: `${net4}.2`,
			ipv6: `${net6}::2`,
			nodeIpv4: `${net4}.1`,
			nodeIpv6: `${net6}::1`,
		},
	});
	const numbers = Array.from({ length: endpoints }, (_, index) => index + 1);
	return {
		nodeNamespace: `${prefix}node`,
		peers: [
			peer("client", "10.1.0", "fd10:1"),
			peer("outside", "10.3.0", "fd10:3"),
			...numbers.map((i) => peer(`ep${i}`, `10.2.${i}`, `fd10:2:${i}`)),
		],
	};
}

/** Every namespace of the lab, the node first. */
export function namespacesOf(plan: LabPlan): readonly string[] {
	return [plan.nodeNamespace, ...plan.peers.map(({ namespace }) => namespace)];
}

/**
 * Lines for `ip -n NODE -batch -`: the links, the node's addresses, and a default route to
 * `outside`, since a packet that is dropped for want of a route leaves no conntrack entry and tests
 * of conntrack would pass by mistake.
 */
export function nodeBatch({ peers }: LabPlan, ipv6: boolean): readonly string[] {
	const outside = peers.find(({ role }) => role === "outside");
	return [
		"link set lo up",
		...peers.flatMap(({ nodeInterface, namespace, addresses }) => [
			`link add ${nodeInterface} type veth peer name eth0 netns ${namespace}`,
			`link set ${nodeInterface} up`,
			`addr add ${addresses.nodeIpv4}/24 dev ${nodeInterface}`,
			...(ipv6 ? [`addr add ${addresses.nodeIpv6}/64 dev ${nodeInterface} nodad`] : []),
		]),
		...(outside === undefined ? [] : [`route add default via ${outside.addresses.ipv4}`]),
		...(outside === undefined || !ipv6 ? [] : [`route add default via ${outside.addresses.ipv6}`]),
	];
}

/** Lines for `ip -n PEER -batch -`; everything that is not on the link goes by the node. */
export function peerBatch({ addresses }: PeerPlan, ipv6: boolean): readonly string[] {
	return [
		"link set lo up",
		"link set eth0 up",
		`addr add ${addresses.ipv4}/24 dev eth0`,
		`route add default via ${addresses.nodeIpv4}`,
		...(ipv6
			? [
					`addr add ${addresses.ipv6}/64 dev eth0 nodad`,
					`route add default via ${addresses.nodeIpv6}`,
				]
			: []),
	];
}
