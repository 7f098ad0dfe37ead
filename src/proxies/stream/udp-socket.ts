import { createSocket, type RemoteInfo, type Socket } from "node:dgram";

import type {
	CreateDatagramSocket,
	DatagramListener,
	DatagramSocket,
	SendCallback,
	Sender,
} from "../udp/datagram-socket.ts";

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
	return new NodeDatagramSocket(
		createSocket({
			type: family === "ipv4" ? "udp4" : "udp6",
			ipv6Only: family === "ipv6",
			recvBufferSize: bytes,
			sendBufferSize: bytes,
			// All that we pass are addresses. Answering at once saves each answer to a client a turn of
			// the tick queue, and makes bind and connect take place in the call itself.
			lookup: (address, _options, callback) => {
				callback(null, address, family === "ipv4" ? 4 : 6);
			},
		}),
	);
};

/** A socket of node:dgram, which tells of a sender its address and port and no more. */
class NodeDatagramSocket implements DatagramSocket {
	readonly #socket: Socket;
	/** Of the last datagram: clients often send several in a row. */
	#latest: Sender | undefined;

	constructor(socket: Socket) {
		this.#socket = socket;
	}

	on(...[event, listener]: DatagramListener): void {
		if (event === "error") this.#socket.on("error", listener);
		else if (event === "message") {
			this.#socket.on("message", (datagram, info) => listener(datagram, this.#senderOf(info)));
		} else this.#socket.on(event, listener);
	}

	bind(options: { address?: string; port: number; exclusive: boolean }): void {
		this.#socket.bind(options);
	}

	connect(port: number, address: string): void {
		this.#socket.connect(port, address);
	}

	send(datagram: Buffer, onSent: SendCallback): void {
		this.#socket.send(datagram, onSent);
	}

	sendTo(datagram: Buffer, { port, address }: Sender, onSent: SendCallback): void {
		this.#socket.send(datagram, port, address, onSent);
	}

	getSendQueueSize(): number {
		return this.#socket.getSendQueueSize();
	}

	address(): { readonly address: string; readonly port: number } {
		return this.#socket.address();
	}

	close(): void {
		this.#socket.close();
	}

	#senderOf({ address, port }: RemoteInfo): Sender {
		if (this.#latest?.port !== port || this.#latest.address !== address) {
			this.#latest = { key: `${address}:${port}`, address, port };
		}
		return this.#latest;
	}
}
