import { type IpAddress, ipFamilyOf } from "../services/address.ts";
import type { Port } from "../services/port.ts";
import type { ServicePort } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import { UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import type { EngineHooks, PreferredPorts } from "./engine.ts";
import type { TcpLimits, UdpLimits } from "./listener.ts";

/** What any engine is made with. */
export interface EngineOptions extends TcpLimits {
	/** The one address to listen on; undefined: every address of a ServicePort's family. */
	readonly bindAddress: IpAddress | undefined;
	/** Both ends included; undefined: the kernel chooses. */
	readonly portRange: { readonly first: Port; readonly last: Port } | undefined;
	readonly udp: UdpLimits;
	readonly preferredPorts: PreferredPorts;
	readonly hooks: EngineHooks;
	readonly log: Log;
	readonly clock?: Clock;
	/** Uniform in [0, 1). */
	readonly random?: () => number;
	/** How many file descriptors the process may have; by default, what the kernel says. */
	readonly descriptorLimit?: number;
	/** Clients that session affinity remembers at most, for each ServicePort; by default 65,536. */
	readonly maxAffinityClients?: number | undefined;
	/** How often connections are looked over for what no event tells of. */
	readonly sweepMs?: number;
}

/** A ServicePort of the other family than the address that the daemon was told to listen on. */
class BindAddressFamilyError extends UserProxyError {
	readonly code = "BIND_ADDRESS_FAMILY";
	readonly retriable = false;
}

/** @throws where a listener's address is of another family than its ServicePort. */
export function requireFamily({ name, family }: ServicePort, address: IpAddress | undefined): void {
	if (address === undefined || ipFamilyOf(address) === family) return;
	throw new BindAddressFamilyError(
		`Cannot listen for "${name}" (${family}) on ${address}: the address is of the other family`,
	);
}

/** UDP flows at most, over all listeners: a flood of datagrams must leave TCP its half. */
export function maxFlowsOf({ maxFlows }: UdpLimits, relayingDescriptors: number): number {
	return Math.min(maxFlows, Math.ceil(relayingDescriptors / 2));
}
