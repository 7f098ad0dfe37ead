import type { IpFamily } from "../../services/address.ts";

/** Who sent a datagram to a socket, and where an answer goes. */
export interface Sender {
	/** Tells it from all other senders to the socket. */
	readonly key: string;
	/** As the kernel wrote it, perhaps with a zone. */
	readonly address: string;
	readonly port: number;
}

/** What {@link DatagramSocket.on} takes, for those who implement it. */
export type DatagramListener =
	| readonly [event: "message", listener: (datagram: Buffer, sender: Sender) => void]
	| readonly [event: "error", listener: (error: Error) => void]
	| readonly [event: "connect" | "listening", listener: () => void];

/** A socket as udp/ wants it. */
export interface DatagramSocket {
	/** The datagram's memory is the socket's: it is good until the listener returns. */
	on(event: "message", listener: (datagram: Buffer, sender: Sender) => void): void;
	on(event: "error", listener: (error: Error) => void): void;
	on(event: "connect" | "listening", listener: () => void): void;
	bind(options: { address?: string; port: number; exclusive: boolean }): void;
	connect(port: number, address: string): void;
	/** To whom it is connected. */
	send(datagram: Buffer, onSent: SendCallback): void;
	/** @param to a sender that this socket has told of. */
	sendTo(datagram: Buffer, to: Sender, onSent: SendCallback): void;
	/** Bytes that the kernel did not take yet. */
	getSendQueueSize(): number;
	/** Ours. */
	address(): { readonly address: string; readonly port: number };
	/** The descriptor is closed when this returns. */
	close(): void;
}

export type SendCallback = (error: Error | null, bytes: number) => void;

export type CreateDatagramSocket = (
	family: IpFamily,
	purpose: "listener" | "flow",
) => DatagramSocket;
