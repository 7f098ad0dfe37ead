import {
	close,
	connect,
	IP_PKTINFO,
	IPPROTO_IP,
	IPPROTO_IPV6,
	IPV6_RECVPKTINFO,
	SO_RCVBUF,
	SO_SNDBUF,
	SOCK_DGRAM,
	SOL_SOCKET,
	setIntOption,
	socket,
} from "../../system/libc.ts";
import { must } from "../../system/system-error.ts";
import { type BoundSockets, type ListenPlace, openBoundSockets } from "./bound-sockets.ts";
import type { SocketAddress } from "./socket-address.ts";

/** As stream/udp-socket.ts has them: the bursts of all clients, and the answers to one. */
const LISTENER_BUFFER_BYTES = 4 * 1024 * 1024;
const FLOW_BUFFER_BYTES = 1024 * 1024;

/**
 * Sockets that all clients of a port send to, each client to one of them; they tell which address of this node was
 * asked.
 *
 * @throws the system's error; nothing is open then.
 */
export function openDatagramSockets(place: ListenPlace, count: number): BoundSockets {
	return openBoundSockets(place, count, SOCK_DGRAM, (fd) => {
		setBuffers(fd, LISTENER_BUFFER_BYTES);
		const [level, option] =
			place.family === "ipv6" ? [IPPROTO_IPV6, IPV6_RECVPKTINFO] : [IPPROTO_IP, IP_PKTINFO];
		must("setsockopt", setIntOption(fd, level, option, 1));
	});
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
