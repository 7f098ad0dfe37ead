import { createSocket } from "node:dgram";

import type { CreateDatagramSocket } from "../udp/datagram-socket.ts";

/**
 * What is asked of the kernel for datagrams that wait to be read; it gives at most
 * net.core.rmem_max. A listener's holds the bursts of all its clients.
 */
const LISTENER_BUFFER_BYTES = 4 * 1024 * 1024;

/** A flow's holds the answers to one client. */
const FLOW_BUFFER_BYTES = 1024 * 1024;

/** Opens nothing yet: the descriptor comes with bind or connect. */
export const createDatagramSocket: CreateDatagramSocket = (family, purpose) => {
	const bytes = purpose === "listener" ? LISTENER_BUFFER_BYTES : FLOW_BUFFER_BYTES;
	return createSocket({
		type: family === "ipv4" ? "udp4" : "udp6",
		ipv6Only: family === "ipv6",
		recvBufferSize: bytes,
		sendBufferSize: bytes,
		// All that we pass are addresses. Answering at once saves each answer to a client a turn of
		// the tick queue, and makes bind and connect take place in the call itself.
		lookup: (address, _options, callback) => {
			callback(null, address, family === "ipv4" ? 4 : 6);
		},
	});
};
