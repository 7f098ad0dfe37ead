import type { IpAddress, IpFamily } from "./address.ts";
import type { IpRange } from "./ip-range.ts";
import type { Port } from "./port.ts";

/**
 * The Kubernetes objects as this daemon sees them: only the fields that we decide by, narrowed and
 * checked. Sources make them (through admit-*.ts); everything behind trusts them.
 */

/** What a Service may name; we relay the first two and report the third. */
export type ServiceProtocol = "tcp" | "udp" | "sctp";

export type SessionAffinity =
	| { readonly type: "None" }
	| { readonly type: "ClientIP"; readonly timeoutMs: number };

/** One entry of a Service's `spec.ports`. */
export interface ServicePortSpec {
	/** Empty for the one unnamed port. Unique in its Service. */
	readonly name: string;
	readonly protocol: ServiceProtocol;
	readonly port: Port;
	/** The port on the node's own addresses; undefined where there is none. */
	readonly nodePort: Port | undefined;
}

/** Whether traffic may go to endpoints anywhere, or only to those on the node that it came to. */
type TrafficPolicy = "Cluster" | "Local";

export interface Service {
	readonly namespace: string;
	readonly name: string;
	/** `metadata.creationTimestamp` in milliseconds since the epoch; undefined where a file tells none. */
	readonly createdAtMs: number | undefined;
	/** `headless` (clusterIP None) and `ExternalName` Services have no address that we could serve. */
	readonly kind: "addressed" | "headless" | "ExternalName";
	/** Value of the label `service.kubernetes.io/service-proxy-name`; "" is a value. */
	readonly proxyName: string | undefined;
	/** At most one per family; empty unless `kind` is "addressed". */
	readonly clusterIps: readonly IpAddress[];
	/** `spec.externalIPs`, of any family, each once. */
	readonly externalIps: readonly IpAddress[];
	/** Load-balancer addresses (`status.loadBalancer`) whose packets come here as they were sent: ipMode VIP. */
	readonly loadBalancerIps: readonly IpAddress[];
	/** Who may come in by a load-balancer address; empty: everybody. Of any family. */
	readonly sourceRanges: readonly IpRange[];
	/** For traffic to ClusterIPs. */
	readonly internalTrafficPolicy: TrafficPolicy;
	/** For traffic to every other address. */
	readonly externalTrafficPolicy: TrafficPolicy;
	/** Where a load balancer asks for local endpoints; only of a LoadBalancer Service with policy Local. */
	readonly healthCheckNodePort: Port | undefined;
	readonly ports: readonly ServicePortSpec[];
	readonly sessionAffinity: SessionAffinity;
}

/** One entry of an EndpointSlice's `ports`. */
export interface SlicePort {
	/** Matches the Service port's name; empty for the unnamed port. */
	readonly name: string;
	readonly protocol: ServiceProtocol;
	readonly port: Port;
}

/** One entry of an EndpointSlice's `endpoints`, with the defaults of absent conditions filled in. */
export interface SliceEndpoint {
	/** The first of the object's addresses: the only one that any proxy uses. */
	readonly address: IpAddress;
	readonly ready: boolean;
	readonly serving: boolean;
	readonly terminating: boolean;
	readonly nodeName: string | undefined;
	readonly zone: string | undefined;
	/** Name of the Pod behind it, where the slice tells. For logs only. */
	readonly podName: string | undefined;
	/** Nodes and zones that are to use it (`hints`); empty: it says nothing. */
	readonly forNodes: readonly string[];
	readonly forZones: readonly string[];
}

export interface EndpointSlice {
	readonly namespace: string;
	readonly name: string;
	/** From the label `kubernetes.io/service-name`. */
	readonly serviceName: string;
	readonly family: IpFamily;
	readonly ports: readonly SlicePort[];
	readonly endpoints: readonly SliceEndpoint[];
}

/** This node's Node object, as far as the cluster tells. */
export interface NodeInfo {
	readonly name: string;
	readonly zone: string | undefined;
	/** `status.addresses` of type InternalIP first, then ExternalIP. */
	readonly addresses: readonly IpAddress[];
	/** `spec.podCIDRs`: where the cluster gives this node's Pods their addresses from. */
	readonly podRanges: readonly IpRange[];
}

/** Where the cluster takes ClusterIPs from (`networking.k8s.io` ServiceCIDR). */
export interface ServiceCidr {
	readonly name: string;
	/** One or two, of different families. */
	readonly ranges: readonly IpRange[];
}

/** Everything the sources know at one moment. Never changed after it was made. */
export interface Snapshot {
	/** Keyed by {@link objectKey}. */
	readonly services: ReadonlyMap<string, Service>;
	/** Keyed by {@link objectKey}. */
	readonly endpointSlices: ReadonlyMap<string, EndpointSlice>;
	/** Keyed by name. */
	readonly serviceCidrs: ReadonlyMap<string, ServiceCidr>;
	readonly node: NodeInfo | undefined;
}

/** "namespace/name": the key of an object among those of its kind. */
export function objectKey(object: { readonly namespace: string; readonly name: string }): string {
	return `${object.namespace}/${object.name}`;
}
