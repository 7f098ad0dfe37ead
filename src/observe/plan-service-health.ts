import type { ServiceHealthCheck } from "./service-health-answer.ts";

/** A Service whose load balancer gets no answer at a healthCheckNodePort, or not on every address. */
export interface ServiceHealthProblem {
	readonly namespace: string;
	readonly name: string;
	readonly port: number;
	/** Why, for people. */
	readonly error: string;
}

export interface ServiceHealthPlan {
	/** What each port answers. */
	readonly served: ReadonlyMap<number, ServiceHealthCheck>;
	readonly leftOut: readonly ServiceHealthProblem[];
}

/**
 * Decides which health checks are served: of two that want the same port the first, and only as many
 * as there are sockets for, in their order.
 *
 * @param perPort how many listening sockets each port needs, one per address.
 * @param maxSockets how many there may be.
 */
export function planServiceHealth(
	wanted: readonly ServiceHealthCheck[],
	{ perPort, maxSockets }: { readonly perPort: number; readonly maxSockets: number },
): ServiceHealthPlan {
	const served = new Map<number, ServiceHealthCheck>();
	const leftOut: ServiceHealthProblem[] = [];
	for (const check of wanted) {
		const { namespace, name, port } = check;
		const owner = served.get(port);
		if (owner !== undefined) {
			const error = `port ${port} is the health check of ${owner.namespace}/${owner.name}`;
			leftOut.push({ namespace, name, port, error });
		} else if ((served.size + 1) * perPort > maxSockets) {
			const error = `more than ${maxSockets} listening sockets for health checks`;
			leftOut.push({ namespace, name, port, error });
		} else {
			served.set(port, check);
		}
	}
	return { served, leftOut };
}
