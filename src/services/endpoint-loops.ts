import type { NodeView } from "./node-view.ts";
import type { Endpoint, ServicePort } from "./service-port.ts";
import type { UnservedPort } from "./unserved-port.ts";

export interface LoopFree {
	readonly servicePorts: readonly ServicePort[];
	/** The endpoints that were left out. */
	readonly unserved: readonly UnservedPort[];
}

/**
 * Leaves out endpoints that our own rules capture: what is relayed there would come back, go round
 * for ever and multiply.
 *
 * On an address that is a Service's alone no port is a good endpoint. On an address of this node only
 * those ports are bad that a Service is served on: others belong to the host, and to Pods in its network.
 */
export function withoutLoops(served: readonly ServicePort[], view: NodeView): LoopFree {
	const isCaptured = captureTest(served, view);
	const unserved = new Map<string, UnservedPort>();
	const servicePorts = served.map((servicePort) => {
		const loops = servicePort.endpoints.filter((endpoint) => isCaptured(servicePort, endpoint));
		if (loops.length === 0) return servicePort;
		for (const { key } of loops) {
			unserved.set(`${servicePort.name} ${key}`, {
				name: servicePort.name,
				reason: "endpoint-is-virtual-address",
				detail: `${key} is a Service's own address`,
			});
		}
		const endpoints = servicePort.endpoints.filter((endpoint) => !loops.includes(endpoint));
		return { ...servicePort, endpoints };
	});
	return { servicePorts, unserved: [...unserved.values()] };
}

function captureTest(
	served: readonly ServicePort[],
	view: NodeView,
): (servicePort: ServicePort, endpoint: Endpoint) => boolean {
	const addresses = new Set<string>();
	const addressPorts = new Set<string>();
	const nodePorts = new Set<string>();
	for (const { protocol, port, virtualAddresses, nodePort } of served) {
		for (const { address } of virtualAddresses) {
			if (view.addresses.has(address)) addressPorts.add(`${address} ${port} ${protocol}`);
			else addresses.add(address);
		}
		// In either family: an address is taken out of Services of both at the same time.
		if (nodePort !== undefined) nodePorts.add(`${nodePort.port} ${protocol}`);
	}
	return ({ protocol }, { address, port }) => {
		if (addresses.has(address)) return true;
		if (!view.addresses.has(address)) return false;
		return (
			addressPorts.has(`${address} ${port} ${protocol}`) || nodePorts.has(`${port} ${protocol}`)
		);
	};
}
