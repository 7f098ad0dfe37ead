import type { RemoteInfo } from "node:dgram";
import type { IpFamily } from "../../services/address.ts";

/** What we use of a dgram socket. */
export interface DatagramSocket {
	/** The datagram's memory is the socket's: it is good until the listener returns. */
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
