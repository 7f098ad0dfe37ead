import { ipFamilyOf } from "../../services/address.ts";
import type { Endpoint } from "../../services/service-port.ts";
import {
	close,
	connect,
	EINPROGRESS,
	IPPROTO_TCP,
	listen,
	SO_KEEPALIVE,
	SO_REUSEADDR,
	SOCK_STREAM,
	SOL_SOCKET,
	setIntOption,
	socket,
	TCP_KEEPCNT,
	TCP_KEEPIDLE,
	TCP_KEEPINTVL,
	TCP_NODELAY,
	TCP_QUICKACK,
} from "../../system/libc.ts";
import { must } from "../../system/system-error.ts";
import { type BoundSockets, type ListenPlace, openBoundSockets } from "./bound-sockets.ts";
import { SocketAddress } from "./socket-address.ts";

/** The kernel caps it to net.core.somaxconn (4096 since Linux 5.4). */
const BACKLOG = 4096;

/**
 * As the `stream` engine has it through libuv: after 15 s of silence the peer is asked every second, and
 * is gone after ten questions without an answer.
 */
const KEEPALIVE_IDLE_S = 15;
const KEEPALIVE_INTERVAL_S = 1;
const KEEPALIVE_COUNT = 10;

/**
 * Sockets that listen at one port.
 *
 * What they are set to is what the sockets that they accept have: small writes go at once, dead peers
 * are found.
 *
 * @throws the system's error; nothing is open then.
 */
export function openListenSockets(place: ListenPlace, count: number): BoundSockets {
	return openBoundSockets(
		place,
		count,
		SOCK_STREAM,
		(fd) => {
			setIntOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
			setSmallWritesAtOnce(fd);
			setKeepalive(fd);
		},
		(fd) => must("listen", listen(fd, BACKLOG)),
	);
}

export function endpointAddress({ address, port }: Endpoint): SocketAddress {
	return new SocketAddress().set(ipFamilyOf(address), address, port);
}

/**
 * Begins to connect. Small writes may wait for an acknowledgement, see {@link setSmallWritesAtOnce}.
 *
 * @param hasBytes that there is something to be sent as soon as it is connected: the kernel sends it together
 *   with the last packet of the handshake then, which would wait for 40 ms else.
 * @returns the socket, or -errno.
 */
export function startConnect(address: SocketAddress, hasBytes: boolean): number {
	const fd = socket(address.domain, SOCK_STREAM);
	if (fd < 0) return fd;
	if (hasBytes) setIntOption(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
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

export function setSmallWritesAtOnce(fd: number): void {
	setIntOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}
