import { type IpAddress, type IpFamily, ipAddressOf, ipBytesOf } from "../../services/address.ts";
import {
	AF_INET,
	AF_INET6,
	IPV4_SOCKET_ADDRESS_BYTES,
	SOCKET_ADDRESS_BYTES,
} from "../../system/libc.ts";

/** `struct sockaddr_in` and `sockaddr_in6`: the family, then the port in network order. */
const FAMILY_AT = 0;
const PORT_AT = 2;
const IPV4_AT = 4;
const IPV4_BYTES = 4;
const IPV6_AT = 8;
const IPV6_BYTES = 16;

/** An address and port in the kernel's form. */
export class SocketAddress {
	readonly bytes: Buffer = Buffer.alloc(SOCKET_ADDRESS_BYTES);

	/** How many of the bytes count, once an address is in there. */
	get length(): number {
		return this.bytes.readUInt16LE(FAMILY_AT) === AF_INET6
			? SOCKET_ADDRESS_BYTES
			: IPV4_SOCKET_ADDRESS_BYTES;
	}

	/** AF_INET or AF_INET6. */
	get domain(): number {
		return this.bytes.readUInt16LE(FAMILY_AT);
	}

	get port(): number {
		return this.bytes.readUInt16BE(PORT_AT);
	}

	/** Canonical: the zone of a link-local address is left out. */
	get address(): IpAddress {
		const isIpv6 = this.bytes.readUInt16LE(FAMILY_AT) === AF_INET6;
		return ipAddressOf(
			isIpv6
				? this.bytes.subarray(IPV6_AT, IPV6_AT + IPV6_BYTES)
				: this.bytes.subarray(IPV4_AT, IPV4_AT + IPV4_BYTES),
		);
	}

	/** @param address undefined: every address of the family. */
	set(family: IpFamily, address: IpAddress | undefined, port: number): this {
		const { bytes } = this;
		bytes.fill(0);
		bytes.writeUInt16LE(family === "ipv6" ? AF_INET6 : AF_INET, FAMILY_AT);
		bytes.writeUInt16BE(port, PORT_AT);
		if (address !== undefined) bytes.set(ipBytesOf(address), family === "ipv6" ? IPV6_AT : IPV4_AT);
		return this;
	}
}

export function domainOf(family: IpFamily): number {
	return family === "ipv6" ? AF_INET6 : AF_INET;
}
