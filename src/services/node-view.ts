import type { IpAddress, IpFamily } from "./address.ts";
import type { IpRange } from "./ip-range.ts";
import type { Port } from "./port.ts";
import type { Protocol } from "./service-port.ts";

/** What the model has to know of the node that it plans for. The same object while nothing changed. */
export interface NodeView {
	/** The node's name in the cluster. */
	readonly nodeName: string;
	/** Every address of the node's interfaces, loopback too. */
	readonly addresses: ReadonlySet<IpAddress>;
	/** Broadcast addresses of its subnets, where nobody can be served. */
	readonly broadcastAddresses: ReadonlySet<IpAddress>;
	/** External IPs outside of these are not served; undefined: all are. */
	readonly allowedExternalIps: readonly IpRange[] | undefined;
	/** True when a process of the host, not a proxy of ours, has the port on that address or on all. */
	isPortTaken(port: HostPort): boolean;
}

export interface HostPort {
	readonly protocol: Protocol;
	readonly family: IpFamily;
	/** Undefined: on any address. */
	readonly address: IpAddress | undefined;
	readonly port: Port;
}
