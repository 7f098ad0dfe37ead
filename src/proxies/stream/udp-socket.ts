import { createSocket, type RemoteInfo } from "node:dgram";

import type { IpFamily } from "../../services/address.ts";

/**
 * What is asked of the kernel for datagrams that wait to be read; it gives at most
 * net.core.rmem_max. A listener's holds the bursts of all its clients.
 */
const LISTENER_BUFFER_BYTES = 4 * 1024 * 1024;

/** A flow's holds the answers to one client. */
const FLOW_BUFFER_BYTES = 1024 * 1024;

/** What we use of a dgram socket. */
export interface DatagramSocket {
	on(event: "message", listener: (datagram: Buffer, sender: RemoteInfo) => void): unknown;
	on(event: "error", listener: (error: Error) => void): unknown;
	on(event: "connect" | "listening", listener: () => void): unknown;
	bind(options: { address?: string; port: number; exclusive: boolean }): unknown;
	connect(port: number, address: string): void;
	send(datagram: Buffer, onSent: SendCallback): void;
	send(datagram: Buffer, port: number, address: string, onSent: SendCallback): void;
	/** Bytes that the kernel did not take yet. */
	getSendQueueSize(): number;
	/** Ours. */
	address(): { readonly address: string; readonly port: number };
	/** The descriptor is closed when this returns. */
	close(): unknown;
}

export type SendCallback = (error: Error | null, bytes: number) => void;

export type CreateDatagramSocket = (
	family: IpFamily,
	purpose: "listener" | "flow",
) => DatagramSocket;

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
