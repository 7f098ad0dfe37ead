import type { IpAddress, IpFamily } from "../../services/address.ts";
import {
	bind,
	close,
	getsockname,
	IPPROTO_IPV6,
	IPV6_V6ONLY,
	SO_REUSEPORT,
	SOL_SOCKET,
	setIntOption,
	socket,
} from "../../system/libc.ts";
import { must } from "../../system/system-error.ts";
import { domainOf, SocketAddress } from "./socket-address.ts";

export interface ListenPlace {
	readonly family: IpFamily;
	/** Undefined: every address of the family. */
	readonly address: IpAddress | undefined;
	/** 0: the kernel chooses. */
	readonly port: number;
}

export interface BoundSockets {
	readonly fds: readonly number[];
	readonly port: number;
}

/**
 * Sockets bound to one port, so that the kernel deals clients out to them where there are several.
 *
 * @param prepare sets a socket's options before it is bound.
 * @param finish is called with each once it is bound.
 * @throws the system's error; nothing is open then.
 */
export function openBoundSockets(
	{ family, address, port: wantedPort }: ListenPlace,
	count: number,
	type: number,
	prepare: (fd: number) => void,
	finish: (fd: number) => void = () => {},
): BoundSockets {
	const fds: number[] = [];
	let port = wantedPort;
	try {
		for (let index = 0; index < count; index += 1) {
			const fd = must("socket", socket(domainOf(family), type));
			fds.push(fd);
			if (count > 1) must("setsockopt", setIntOption(fd, SOL_SOCKET, SO_REUSEPORT, 1));
			if (family === "ipv6") setIntOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
			prepare(fd);
			const where = new SocketAddress().set(family, address, port);
			must("bind", bind(fd, where.bytes, where.length));
			finish(fd);
			if (port === 0) port = portOf(fd);
		}
	} catch (error) {
		for (const fd of fds) close(fd);
		throw error;
	}
	return { fds, port };
}

/** The local port. */
function portOf(fd: number): number {
	const own = new SocketAddress();
	must("getsockname", getsockname(fd, own.bytes));
	return own.port;
}
