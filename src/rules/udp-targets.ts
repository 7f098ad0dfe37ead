import type { IpFamily } from "../services/address.ts";
import { addressesOfNodePorts, type NodeNetwork } from "../services/node-network.ts";
import type { Binding, Clients } from "../services/service-port.ts";
import type { PreviousBinding } from "./previous.ts";

/** Where UDP flows to one address and port are led. */
export interface UdpTarget {
	/** What clients dial, of a node port each of the node's addresses; undefined: any address. */
	readonly address: string | undefined;
	readonly port: number;
	readonly proxyPort: number;
	/** Undefined: any address of the node. */
	readonly listenAddress: string | undefined;
	readonly clients: Clients;
	/** False: new flows are refused there, so none may go on. */
	readonly serves: boolean;
}

/** The targets of all UDP bindings; node ports once for each address of the node that they are on. */
export function udpTargets(
	bindings: readonly Binding[],
	family: IpFamily,
	network: NodeNetwork,
): readonly UdpTarget[] {
	const udp = bindings.filter(({ protocol }) => protocol === "udp");
	const onNode = addressesOfNodePorts(network, family);
	return udp.flatMap((binding) => {
		const { port, proxyPort, listenAddress, virtualAddresses, nodePort, verdict } = binding;
		const target = { proxyPort, listenAddress, serves: verdict === "serve" };
		return [
			...virtualAddresses.map(({ address, clients }) => ({ address, port, clients, ...target })),
			...(nodePort === undefined
				? []
				: onNode.map((address) => ({ address, ...nodePort, ...target }))),
		];
	});
}

/** Where a predecessor's rules led flows; those of node ports to whichever address they were on. */
export function previousUdpTargets(found: readonly PreviousBinding[]): readonly UdpTarget[] {
	return found
		.filter(({ protocol }) => protocol === "udp")
		.map(({ address, port, proxyPort, listenAddress }) => ({
			address,
			port,
			proxyPort,
			listenAddress,
			clients: "all",
			serves: true,
		}));
}
