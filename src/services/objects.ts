import type { IpAddress, IpFamily } from "./address.ts";
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
}

export interface Service {
	readonly namespace: string;
	readonly name: string;
	/** `headless` (clusterIP None) and `ExternalName` Services have no address that we could serve. */
	readonly kind: "addressed" | "headless" | "ExternalName";
	/** Value of the label `service.kubernetes.io/service-proxy-name`; "" is a value. */
	readonly proxyName: string | undefined;
	/** At most one per family; empty unless `kind` is "addressed". */
	readonly clusterIps: readonly IpAddress[];
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
}

/** Everything the sources know at one moment. Never changed after it was made. */
export interface Snapshot {
	/** Keyed by {@link objectKey}. */
	readonly services: ReadonlyMap<string, Service>;
	/** Keyed by {@link objectKey}. */
	readonly endpointSlices: ReadonlyMap<string, EndpointSlice>;
	readonly node: NodeInfo | undefined;
}

/** "namespace/name": the key of an object among those of its kind. */
export function objectKey(object: { readonly namespace: string; readonly name: string }): string {
	return `${object.namespace}/${object.name}`;
}
