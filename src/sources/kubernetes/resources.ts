/** One collection of the API that we list and watch. */
export interface Resource {
	readonly kind: "Service" | "EndpointSlice" | "Endpoints" | "ServiceCIDR" | "Node";
	/** As RBAC names it: "endpointslices". */
	readonly plural: string;
	/** "discovery.k8s.io/v1": as objects of it name it. */
	readonly apiVersion: string;
	/** As RBAC names it; "" is the core group. */
	readonly group: string;
	/** "/apis/discovery.k8s.io/v1/endpointslices". */
	readonly path: string;
	readonly labelSelector: string | undefined;
	readonly fieldSelector: string | undefined;
	/**
	 * True where the selector only saves traffic: on a server that refuses it, everything may be read
	 * and the model leaves out what the selector would have.
	 */
	readonly fieldSelectorOptional: boolean;
}

export type SliceVersion = "v1" | "v1beta1" | "endpoints";

const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";
const NOT_HEADLESS = "!service.kubernetes.io/headless";

/**
 * Services with kube-proxy's selectors: headless ones are not wanted, and a Service with a proxy name
 * belongs to the proxy of that name alone. The field selector exists since Kubernetes 1.31.
 */
export function servicesResource(serviceProxyName: string | undefined): Resource {
	return {
		kind: "Service",
		plural: "services",
		apiVersion: "v1",
		group: "",
		path: "/api/v1/services",
		labelSelector:
			serviceProxyName === undefined
				? `!${PROXY_NAME_LABEL}`
				: `${PROXY_NAME_LABEL}=${serviceProxyName}`,
		fieldSelector: "spec.clusterIP!=None",
		fieldSelectorOptional: true,
	};
}

/** EndpointSlices in the version that the cluster serves, or the older Endpoints. */
export function slicesResource(version: SliceVersion): Resource {
	const common = {
		labelSelector: NOT_HEADLESS,
		fieldSelector: undefined,
		fieldSelectorOptional: false,
	};
	if (version === "endpoints") {
		const path = "/api/v1/endpoints";
		return { kind: "Endpoints", plural: "endpoints", apiVersion: "v1", group: "", path, ...common };
	}
	const group = "discovery.k8s.io";
	const apiVersion = `${group}/${version}`;
	return {
		kind: "EndpointSlice",
		plural: "endpointslices",
		apiVersion,
		group,
		path: `/apis/${apiVersion}/endpointslices`,
		...common,
	};
}

/** Where the cluster takes ClusterIPs from. */
export function serviceCidrsResource(version: "v1" | "v1beta1"): Resource {
	const group = "networking.k8s.io";
	const apiVersion = `${group}/${version}`;
	return {
		kind: "ServiceCIDR",
		plural: "servicecidrs",
		apiVersion,
		group,
		path: `/apis/${apiVersion}/servicecidrs`,
		labelSelector: undefined,
		fieldSelector: undefined,
		fieldSelectorOptional: false,
	};
}

/** The one Node object of this node. */
export function nodeResource(nodeName: string): Resource {
	return {
		kind: "Node",
		plural: "nodes",
		apiVersion: "v1",
		group: "",
		path: "/api/v1/nodes",
		labelSelector: undefined,
		fieldSelector: `metadata.name=${nodeName}`,
		fieldSelectorOptional: false,
	};
}

/** The selectors as query parameters. */
export function selectorsOf(resource: Resource): Record<string, string> {
	const query: Record<string, string> = {};
	if (resource.labelSelector !== undefined) query["labelSelector"] = resource.labelSelector;
	if (resource.fieldSelector !== undefined) query["fieldSelector"] = resource.fieldSelector;
	return query;
}
