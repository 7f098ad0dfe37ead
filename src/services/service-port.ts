import { formatSocketAddress, type IpAddress, type IpFamily } from "./address.ts";
import type { SessionAffinity } from "./objects.ts";
import type { Port } from "./port.ts";

/** The protocols that we relay. */
export type Protocol = "tcp" | "udp";

declare const servicePortKeyBrand: unique symbol;

/** "shop/cart:http/tcp/ipv4": the identity of a ServicePort. Made only by {@link servicePortKey}. */
export type ServicePortKey = string & { readonly [servicePortKeyBrand]: true };

/** One address under which clients reach a ServicePort. */
export interface VirtualAddress {
	readonly kind: "ClusterIP";
	readonly address: IpAddress;
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
 * endpoints of that family, as kube-proxy has it.
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
	/** The port that clients dial. */
	readonly port: Port;
	/** At least one; all of `family`. */
	readonly virtualAddresses: readonly VirtualAddress[];
	readonly sessionAffinity: SessionAffinity;
	/** The usable ones, each once, in a stable order. Empty: clients are refused. */
	readonly endpoints: readonly Endpoint[];
}

/** Where the proxy of a ServicePort listens on this node: all that the packet rules need to know. */
export interface Binding {
	readonly key: ServicePortKey;
	readonly name: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	readonly port: Port;
	readonly virtualAddresses: readonly VirtualAddress[];
	/** The local port of the listener. */
	readonly proxyPort: Port;
	/** The one address that the listener is bound to, or undefined for all of its family. */
	readonly listenAddress: IpAddress | undefined;
	/** True when there is no usable endpoint: new connections are to be refused at once. */
	readonly refuses: boolean;
}

export function servicePortKey(parts: {
	readonly namespace: string;
	readonly serviceName: string;
	readonly portName: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
}): ServicePortKey {
	const { namespace, serviceName, portName, protocol, family } = parts;
	const key = `${namespace}/${serviceName}:${portName}/${protocol}/${family}`;
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- this is the constructor
	return key as ServicePortKey;
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
