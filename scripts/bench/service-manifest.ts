import type { Carried } from "./setting.ts";

type Ports = Readonly<Record<Carried, number>>;

/** A Service of three ports, whose only endpoint is that of the lab. */
export function serviceManifest(
	clusterIP: string,
	ports: Ports,
	endpoint: { readonly address: string; readonly ports: Ports },
): unknown {
	const named = (["http", "bulk", "udp"] as const).map((name) => ({
		name,
		protocol: name === "udp" ? "UDP" : "TCP",
		port: ports[name],
		targetPort: endpoint.ports[name],
	}));
	const metadata = { namespace: "bench", name: "web" };
	return {
		apiVersion: "v1",
		kind: "List",
		items: [
			{
				apiVersion: "v1",
				kind: "Service",
				metadata,
				spec: { clusterIP, clusterIPs: [clusterIP], ports: named },
			},
			{
				apiVersion: "discovery.k8s.io/v1",
				kind: "EndpointSlice",
				metadata: { ...metadata, labels: { "kubernetes.io/service-name": "web" } },
				addressType: "IPv4",
				ports: named.map(({ name, protocol, targetPort }) => ({
					name,
					protocol,
					port: targetPort,
				})),
				endpoints: [{ addresses: [endpoint.address] }],
			},
		],
	};
}
