import type { IpFamily } from "../../services/address.ts";
import type { Protocol } from "../../services/service-port.ts";

const BITS = { tcp: { ipv4: 1, ipv6: 2 }, udp: { ipv4: 4, ipv6: 8 } } as const;

/** One byte for each port. */
export const OWN_PORTS_BYTES = 65_536;

/** Notes that a port is one of our proxy ports, or is not any more. */
export function setOwnPort(
	ports: Uint8Array,
	protocol: Protocol,
	family: IpFamily,
	port: number,
	isOwn: boolean,
): void {
	const bit = BITS[protocol][family];
	const before = ports[port] ?? 0;
	ports[port] = isOwn ? before | bit : before & ~bit;
}

export function isOwnPort(
	ports: Uint8Array,
	protocol: Protocol,
	family: IpFamily,
	port: number,
): boolean {
	return ((ports[port] ?? 0) & BITS[protocol][family]) !== 0;
}
