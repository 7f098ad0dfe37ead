import {
	bind,
	close,
	connect,
	IPPROTO_IPV6,
	IPV6_V6ONLY,
	SO_RCVBUF,
	SO_REUSEPORT,
	SO_SNDBUF,
	SOCK_DGRAM,
	SOL_SOCKET,
	setIntOption,
	socket,
} from "./libc.ts";
import { must, portOf } from "./must.ts";
import { domainOf, SocketAddress } from "./socket-address.ts";
import type { ListenPlace } from "./tcp-sockets.ts";

/** As stream/udp-socket.ts has them: the bursts of all clients, and the answers to one. */
const LISTENER_BUFFER_BYTES = 4 * 1024 * 1024;
const FLOW_BUFFER_BYTES = 1024 * 1024;

/**
 * Sockets bound to one port, so that the kernel deals clients out to them, each client to one.
 *
 * @throws the system's error; nothing is open then.
 */
export function openDatagramSockets(
	place: ListenPlace,
	count: number,
): { readonly fds: readonly number[]; readonly port: number } {
	const fds: number[] = [];
	let { port } = place;
	try {
		for (let index = 0; index < count; index += 1) {
			const fd = must("socket", socket(domainOf(place.family), SOCK_DGRAM));
			fds.push(fd);
			if (count > 1) must("setsockopt", setIntOption(fd, SOL_SOCKET, SO_REUSEPORT, 1));
			if (place.family === "ipv6") setIntOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
			setBuffers(fd, LISTENER_BUFFER_BYTES);
			const where = new SocketAddress().set(place.family, place.address, port);
			must("bind", bind(fd, where.bytes, where.length));
			if (port === 0) port = portOf(fd);
		}
	} catch (error) {
		for (const fd of fds) close(fd);
		throw error;
	}
	return { fds, port };
}

/** A socket that is connected to the endpoint, or -errno. */
export function connectDatagramSocket(address: SocketAddress): number {
	const fd = socket(address.domain, SOCK_DGRAM);
	if (fd < 0) return fd;
	setBuffers(fd, FLOW_BUFFER_BYTES);
	const result = connect(fd, address.bytes, address.length);
	if (result >= 0) return fd;
	close(fd);
	return result;
}

/** The kernel gives at most net.core.rmem_max and wmem_max. */
function setBuffers(fd: number, bytes: number): void {
	setIntOption(fd, SOL_SOCKET, SO_RCVBUF, bytes);
	setIntOption(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}
