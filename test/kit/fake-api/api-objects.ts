import type { ApiObject } from "./objects.ts";

/** A Service as an API server sends it; `spec` replaces fields of the default. */
export function apiService(
	name: string,
	more: {
		readonly namespace?: string;
		readonly labels?: Readonly<Record<string, string>>;
		readonly spec?: Readonly<Record<string, unknown>>;
	} = {},
): ApiObject {
	const { namespace = "shop", labels = {}, spec = {} } = more;
	return {
		apiVersion: "v1",
		kind: "Service",
		metadata: { name, namespace, labels },
		spec: {
			type: "ClusterIP",
			clusterIP: "10.96.0.10",
			clusterIPs: ["10.96.0.10"],
			ports: [{ name: "http", port: 80, protocol: "TCP", targetPort: 8080 }],
			sessionAffinity: "None",
			...spec,
		},
	};
}

/** An EndpointSlice (v1) of one Service, with one port and these addresses. */
export function apiSlice(
	name: string,
	addresses: readonly string[],
	more: { readonly namespace?: string; readonly service?: string } = {},
): ApiObject {
	const { namespace = "shop", service = name } = more;
	return {
		apiVersion: "discovery.k8s.io/v1",
		kind: "EndpointSlice",
		metadata: { name, namespace, labels: { "kubernetes.io/service-name": service } },
		addressType: "IPv4",
		ports: [{ name: "http", port: 8080, protocol: "TCP" }],
		endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
	};
}

/** The older Endpoints of one Service. */
export function apiEndpoints(name: string, addresses: readonly string[]): ApiObject {
	return {
		apiVersion: "v1",
		kind: "Endpoints",
		metadata: { name, namespace: "shop" },
		subsets: [
			{
				addresses: addresses.map((ip) => ({ ip })),
				ports: [{ name: "http", port: 8080, protocol: "TCP" }],
			},
		],
	};
}

/** Where a cluster takes ClusterIPs from. */
export function apiServiceCidr(name: string, cidrs: readonly string[]): ApiObject {
	return {
		apiVersion: "networking.k8s.io/v1",
		kind: "ServiceCIDR",
		metadata: { name },
		spec: { cidrs },
	};
}

export function apiNode(name: string): ApiObject {
	return {
		apiVersion: "v1",
		kind: "Node",
		metadata: { name, labels: { "topology.kubernetes.io/zone": "z1" } },
		status: { addresses: [{ type: "InternalIP", address: "192.168.0.10" }] },
	};
}
