import type { IpAddress, IpFamily } from "../../services/address.ts";
import { ipFamilyOf } from "../../services/address.ts";
import type { Endpoint } from "../../services/service-port.ts";
import {
	bind,
	close,
	connect,
	EINPROGRESS,
	IPPROTO_IPV6,
	IPPROTO_TCP,
	IPV6_V6ONLY,
	listen,
	SO_KEEPALIVE,
	SO_REUSEADDR,
	SO_REUSEPORT,
	SOCK_STREAM,
	SOL_SOCKET,
	setIntOption,
	socket,
	TCP_KEEPCNT,
	TCP_KEEPIDLE,
	TCP_KEEPINTVL,
	TCP_NODELAY,
} from "./libc.ts";
import { must, portOf } from "./must.ts";
import { domainOf, SocketAddress } from "./socket-address.ts";

/** The kernel caps it to net.core.somaxconn (4096 since Linux 5.4). */
const BACKLOG = 4096;

/**
 * As the `stream` engine has it through libuv: after 15 s of silence the peer is asked every second, and
 * is gone after ten questions without an answer.
 */
const KEEPALIVE_IDLE_S = 15;
const KEEPALIVE_INTERVAL_S = 1;
const KEEPALIVE_COUNT = 10;

export interface ListenPlace {
	readonly family: IpFamily;
	/** Undefined: every address of the family. */
	readonly address: IpAddress | undefined;
	/** 0: the kernel chooses. */
	readonly port: number;
}

/**
 * Sockets that listen at one port, so that the kernel deals clients out to them.
 *
 * What they are set to is what the sockets that they accept have: small writes go at once, dead peers
 * are found.
 *
 * @throws the system's error; nothing is open then.
 */
export function openListenSockets(
	place: ListenPlace,
	count: number,
): { readonly fds: readonly number[]; readonly port: number } {
	const fds: number[] = [];
	let { port } = place;
	try {
		for (let index = 0; index < count; index += 1) {
			const fd = openListenSocket({ ...place, port }, count > 1, fds);
			if (port === 0) port = portOf(fd);
		}
	} catch (error) {
		for (const fd of fds) close(fd);
		throw error;
	}
	return { fds, port };
}

function openListenSocket(place: ListenPlace, isShared: boolean, opened: number[]): number {
	const fd = must("socket", socket(domainOf(place.family), SOCK_STREAM));
	opened.push(fd);
	setIntOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (isShared) must("setsockopt", setIntOption(fd, SOL_SOCKET, SO_REUSEPORT, 1));
	if (place.family === "ipv6") setIntOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	setSmallWritesAtOnce(fd);
	setKeepalive(fd);
	const where = new SocketAddress().set(place.family, place.address, place.port);
	must("bind", bind(fd, where.bytes, where.length));
	must("listen", listen(fd, BACKLOG));
	return fd;
}

export function endpointAddress({ address, port }: Endpoint): SocketAddress {
	return new SocketAddress().set(ipFamilyOf(address), address, port);
}

/**
 * Begins to connect.
 *
 * @returns the socket, or -errno.
 */
export function startConnect(address: SocketAddress): number {
	const fd = socket(address.domain, SOCK_STREAM);
	if (fd < 0) return fd;
	setSmallWritesAtOnce(fd);
	const result = connect(fd, address.bytes, address.length);
	if (result === 0 || result === -EINPROGRESS) return fd;
	close(fd);
	return result;
}

/** Asked after when a connection has lived for some time: most have ended by then. */
export function setKeepalive(fd: number): void {
	setIntOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	setIntOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	setIntOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	setIntOption(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
}

function setSmallWritesAtOnce(fd: number): void {
	setIntOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}
