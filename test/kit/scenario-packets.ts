import { formatSocketAddress } from "../../src/services/address.ts";
import { planLab } from "./lab-plan.ts";
import { PacketTracer } from "./packet-tracer.ts";
import type { ModelOutcome } from "./scenario-model.ts";
import { endpointNameOf, type Target } from "./scenario-objects.ts";
import type { Place } from "./scenario-schema.ts";

const LAB = planLab("", 3);

/** In the words of a scenario's expectation; any endpoints at all. */
export type Reached =
	| "refused"
	| "dropped"
	| "not captured"
	| readonly string[]
	| { readonly sticky: readonly string[] };

/** Of the lab: which of its hosts stands for a place. A Pod is one with its own network. */
const ROLES: Readonly<Record<Exclude<Place, "node">, string>> = {
	client: "client",
	outside: "outside",
	pod: "ep1",
};

const NODE_ADDRESSES: readonly string[] = [
	...LAB.peers.map(({ addresses }) => addresses.nodeIpv4),
	...LAB.peers.map(({ addresses }) => addresses.nodeIpv6),
];

/**
 * Sends a first packet through the rules, past a host that drops what it does not know, and tells
 * what comes of it.
 *
 * @throws {Error} where a packet is led to where no proxy listens.
 */
export function traceReach(
	{ rules, bindings, plan }: ModelOutcome,
	from: Place,
	target: Target,
): Reached {
	const family = target.address.includes(":") ? "ipv6" : "ipv4";
	const nodeAddresses = NODE_ADDRESSES.filter((each) => each.includes(":") === (family === "ipv6"));
	const tracer = new PacketTracer(rules[family], { nodeAddresses, inputPolicy: "DROP" });
	const { address, port, verdict, isByRule, comment } = tracer.trace({
		...startOf(from, target.address, nodeAddresses),
		destination: target.address,
		destinationPort: target.port,
		protocol: target.protocol,
		state: "NEW",
	});
	if (comment === "" && !isByRule) return "not captured";
	if (verdict === "DROP") return "dropped";
	if (verdict !== "ACCEPT") return "refused";
	const binding = bindings.find(
		({ proxyPort, protocol, listenAddress, family: own }) =>
			own === family &&
			proxyPort === port &&
			protocol === target.protocol &&
			(listenAddress ?? address) === address,
	);
	const servicePort = plan.servicePorts.find(({ key }) => key === binding?.key);
	if (servicePort === undefined || servicePort.key !== comment) {
		throw new Error(
			`rule of ${comment} leads to ${formatSocketAddress(address, port)}: not its own`,
		);
	}
	const names = servicePort.endpoints.map((endpoint) => endpointNameOf(endpoint.address));
	return servicePort.sessionAffinity.type === "ClientIP" ? { sticky: names } : names;
}

function startOf(
	from: Place,
	destination: string,
	nodeAddresses: readonly string[],
): { readonly inInterface: string | undefined; readonly source: string } {
	const isIpv6 = destination.includes(":");
	if (from === "node") {
		const isOwn = nodeAddresses.includes(destination) || /^(?:127\.|::1$)/.test(destination);
		return { inInterface: undefined, source: isOwn ? destination : (nodeAddresses[0] ?? "") };
	}
	const peer = LAB.peers.find(({ role }) => role === ROLES[from]);
	if (peer === undefined) throw new TypeError(`the lab has no ${ROLES[from]}`);
	const { nodeInterface, addresses } = peer;
	return { inInterface: nodeInterface, source: isIpv6 ? addresses.ipv6 : addresses.ipv4 };
}
