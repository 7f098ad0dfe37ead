/** Kubernetes objects as the API would send them; a test names only the fields it is about. */

interface RawServiceFields {
	readonly namespace?: string;
	readonly name?: string;
	readonly labels?: Record<string, string>;
	/** `metadata.creationTimestamp`. */
	readonly createdAt?: string;
	readonly clusterIp?: string;
	readonly clusterIps?: readonly string[];
	readonly ports?: readonly unknown[];
	/** Merged over the rest of the spec. */
	readonly spec?: Record<string, unknown>;
}

export function rawService(fields: RawServiceFields = {}) {
	const { namespace = "shop", name = "cart", labels, createdAt, ports, spec } = fields;
	const clusterIps = fields.clusterIps ?? [fields.clusterIp ?? "10.96.0.10"];
	return {
		apiVersion: "v1",
		kind: "Service",
		metadata: {
			namespace,
			name,
			...(createdAt === undefined ? {} : { creationTimestamp: createdAt }),
			...(labels === undefined ? {} : { labels }),
		},
		spec: {
			type: "ClusterIP",
			clusterIP: clusterIps[0],
			clusterIPs: clusterIps,
			ports: ports ?? [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
			sessionAffinity: "None",
			...spec,
		},
	};
}

interface RawSliceFields {
	readonly namespace?: string;
	readonly name?: string;
	readonly serviceName?: string;
	readonly addressType?: string;
	readonly ports?: readonly unknown[] | null;
	/** Addresses of ready endpoints, or whole endpoints. */
	readonly endpoints?: readonly unknown[];
}

export function rawSlice(fields: RawSliceFields = {}) {
	const { namespace = "shop", serviceName = "cart", addressType = "IPv4" } = fields;
	return {
		apiVersion: "discovery.k8s.io/v1",
		kind: "EndpointSlice",
		metadata: {
			namespace,
			name: fields.name ?? `${serviceName}-abc`,
			labels: { "kubernetes.io/service-name": serviceName },
		},
		addressType,
		ports: fields.ports ?? [{ name: "http", protocol: "TCP", port: 8080 }],
		endpoints: (fields.endpoints ?? ["10.244.1.2"]).map((endpoint) =>
			typeof endpoint === "string"
				? { addresses: [endpoint], conditions: { ready: true } }
				: endpoint,
		),
	};
}
