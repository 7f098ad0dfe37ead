import { formatSocketAddress, type IpAddress, type IpFamily } from "./address.ts";
import type { IpRange } from "./ip-range.ts";
import type { SessionAffinity } from "./objects.ts";
import type { Port } from "./port.ts";

/** The protocols that we relay. */
export type Protocol = "tcp" | "udp";

/** Which endpoints a ServicePort draws from: the cluster's, or those on this node alone. */
export type EndpointPool = "cluster" | "local";

declare const servicePortKeyBrand: unique symbol;

/**
 * "shop/cart:http/tcp/ipv4", and with "/local" behind it where the pool is "local": the identity of
 * a ServicePort. Made only by {@link servicePortKey}.
 */
export type ServicePortKey = string & { readonly [servicePortKeyBrand]: true };

/**
 * Whose packets come to a ServicePort by an address: everybody's, or, where a traffic policy parts
 * them, those of this node and its Pods ("inside") or those of all others ("outside").
 */
export type Clients = "all" | "inside" | "outside";

/** One address under which clients reach a ServicePort, on its port. */
export interface VirtualAddress {
	readonly kind: "ClusterIP" | "ExternalIP" | "LoadBalancerIP";
	readonly address: IpAddress;
	readonly clients: Clients;
	/** Who may come in, all of the address's family; empty: everybody. Only of a LoadBalancerIP. */
	readonly sourceRanges: readonly IpRange[];
}

/** A port on the node's own addresses under which clients reach a ServicePort. */
export interface NodePort {
	readonly port: Port;
	readonly clients: Clients;
}

/** Where a connection may be relayed to. */
export interface Endpoint {
	/** "10.2.1.2:8080" or "[fd10::1]:8080"; unique in its ServicePort. */
	readonly key: string;
	readonly address: IpAddress;
	readonly port: Port;
	readonly nodeName: string | undefined;
	readonly zone: string | undefined;
	readonly podName: string | undefined;
}

/**
 * One port of one Service in one IP family: what gets one listener and one proxy port.
 *
 * Plain data, safe to compare and to log. A dual-stack Service has one per family, each with the
 * endpoints of that family, as kube-proxy has it. A Service with a traffic policy Local may have
 * two: one for the traffic that has to stay on this node, one for the rest.
 */
export interface ServicePort {
	readonly key: ServicePortKey;
	/** "shop/cart:http", or "shop/cart" where the port has no name: what people read in logs. */
	readonly name: string;
	readonly namespace: string;
	readonly serviceName: string;
	/** Empty for the unnamed port. */
	readonly portName: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	readonly pool: EndpointPool;
	/** The port that clients dial. */
	readonly port: Port;
	/** All of `family`. Empty only where there is a `nodePort`. */
	readonly virtualAddresses: readonly VirtualAddress[];
	readonly nodePort: NodePort | undefined;
	readonly sessionAffinity: SessionAffinity;
	/** The usable ones, each once, in a stable order. */
	readonly endpoints: readonly Endpoint[];
	/**
	 * What clients are told while there is no usable endpoint: "drop" where other nodes have some, as
	 * a policy Local wants it, else "reject".
	 */
	readonly whenEmpty: "reject" | "drop";
}

/** Where the proxy of a ServicePort listens on this node: all that the packet rules need to know. */
export interface Binding {
	readonly key: ServicePortKey;
	readonly name: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	readonly port: Port;
	readonly virtualAddresses: readonly VirtualAddress[];
	readonly nodePort: NodePort | undefined;
	/** The local port of the listener. */
	readonly proxyPort: Port;
	/** The one address that the listener is bound to, or undefined for all of its family. */
	readonly listenAddress: IpAddress | undefined;
	/** What becomes of new connections: without a usable endpoint they are refused at once, or dropped. */
	readonly verdict: "serve" | "reject" | "drop";
}

interface KeyParts {
	readonly namespace: string;
	readonly serviceName: string;
	readonly portName: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
}

/** @param pool "cluster" where it is left out. */
export function servicePortKey(parts: KeyParts & { readonly pool?: EndpointPool }): ServicePortKey {
	const { namespace, serviceName, portName, protocol, family, pool } = parts;
	const key = `${namespace}/${serviceName}:${portName}/${protocol}/${family}`;
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- this is the constructor
	return (pool === "local" ? `${key}/local` : key) as ServicePortKey;
}

/** All parts but the port name not empty. */
const KEY = /^([^/:]+)\/([^/:]+):([^/:]*)\/(tcp|udp)\/(ipv4|ipv6)(\/local)?$/;

/** What a key says, or undefined for a text that is none. */
export function parseServicePortKey(
	text: string,
): (KeyParts & { readonly pool: EndpointPool }) | undefined {
	const [, namespace, serviceName, portName, protocol, family, local] = KEY.exec(text) ?? [];
	if (namespace === undefined || serviceName === undefined || portName === undefined) {
		return undefined;
	}
	return {
		namespace,
		serviceName,
		portName,
		protocol: protocol === "udp" ? "udp" : "tcp",
		family: family === "ipv6" ? "ipv6" : "ipv4",
		pool: local === undefined ? "cluster" : "local",
	};
}

/** "shop/cart:http", or "shop/cart" for an unnamed port. */
export function servicePortName(namespace: string, serviceName: string, portName: string): string {
	return portName === ""
		? `${namespace}/${serviceName}`
		: `${namespace}/${serviceName}:${portName}`;
}

export function endpointKey(address: IpAddress, port: Port): string {
	return formatSocketAddress(address, port);
}
