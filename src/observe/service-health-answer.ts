import { headersFor } from "./http-router.ts";

/** A Service whose load balancer asks this node, at the healthCheckNodePort, whether to send clients. */
export interface ServiceHealthCheck {
	readonly namespace: string;
	readonly name: string;
	/** The Service's healthCheckNodePort. */
	readonly port: number;
	/** How many distinct addresses its ready endpoints on this node have; terminating ones not counted. */
	readonly localEndpoints: number;
}

export interface ServiceHealthAnswer {
	readonly status: 200 | 503;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

/**
 * What a load balancer that asks about a Service is told: kube-proxy's status, its headers and, byte for
 * byte, its body. Anybody who reaches the port may read it.
 */
export function serviceHealthAnswer(
	{ namespace, name, localEndpoints }: ServiceHealthCheck,
	serviceProxyHealthy: boolean,
): ServiceHealthAnswer {
	const body = JSON.stringify(
		{ service: { namespace, name }, localEndpoints, serviceProxyHealthy },
		undefined,
		"\t",
	);
	return {
		status: localEndpoints > 0 && serviceProxyHealthy ? 200 : 503,
		headers: {
			...headersFor("application/json"),
			// Load balancers that weigh nodes look for it.
			"X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
			"Content-Length": String(Buffer.byteLength(body)),
			// One question a connection: nothing is held open, and a request's body is never read.
			Connection: "close",
		},
		body,
	};
}
