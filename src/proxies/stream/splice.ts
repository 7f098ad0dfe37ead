import type { Socket } from "node:net";

import { errorCode } from "../../shared/errors.ts";
import { type BrokenEnd, brokenEnd } from "../broken-end.ts";

export type SpliceEnd = BrokenEnd | "closed";

const NOTHING = Buffer.alloc(0);

/**
 * Carries bytes both ways between a client and an endpoint that are both connected.
 *
 * Each direction ends by itself: a FIN is passed on as a FIN, after everything that came before it.
 * A side that takes nothing stops the reading from the other, so that at most about two marks (128
 * KiB) wait in each direction. Says how it ended (what it says after that does not count) and leaves
 * both sockets to the caller, who destroys them unless the end is "closed".
 */
export class Splice {
	readonly #client: Socket;
	readonly #endpoint: Socket;
	readonly #onOver: (end: SpliceEnd) => void;
	#openSockets = 2;
	#progressBefore = -1;

	/** @param client whatever of it has been read already is relayed first. */
	constructor(client: Socket, endpoint: Socket, onOver: (end: SpliceEnd) => void) {
		this.#client = client;
		this.#endpoint = endpoint;
		this.#onOver = onOver;
		const onClose = () => this.#closed();
		client
			.on("error", (error) => this.#onOver(brokenEnd("client", errorCode(error))))
			.on("close", onClose);
		endpoint
			.on("error", (error) => this.#onOver(brokenEnd("endpoint", errorCode(error))))
			.on("close", onClose);
		forward(client, endpoint);
		forward(endpoint, client);
	}

	/** Bytes that the kernel has taken for the endpoint. */
	get bytesIn(): number {
		return bytesSent(this.#endpoint);
	}

	/** Bytes that the kernel has taken for the client. */
	get bytesOut(): number {
		return bytesSent(this.#client);
	}

	/** True when one direction has ended and the other has not. */
	get isHalfClosed(): boolean {
		return this.#client.readableEnded || this.#endpoint.readableEnded;
	}

	/** True when one side is not being read at present, because the other takes nothing. */
	get isHeldBack(): boolean {
		return this.#client.isPaused() || this.#endpoint.isPaused();
	}

	/** True when a byte has moved since the last call. */
	hasMoved(): boolean {
		const progress =
			this.#client.bytesRead + this.#endpoint.bytesRead + this.bytesIn + this.bytesOut;
		const moved = progress !== this.#progressBefore;
		this.#progressBefore = progress;
		return moved;
	}

	/**
	 * Finds out whether a side that {@link isHeldBack} or has ended has reset the connection: libuv
	 * does not watch a socket that is not read. To be called now and then.
	 */
	probe(): void {
		probe(this.#client);
		probe(this.#endpoint);
	}

	#closed(): void {
		this.#openSockets -= 1;
		if (this.#openSockets === 0) this.#onOver("closed");
	}
}

function forward(from: Socket, to: Socket): void {
	from.on("data", (chunk: Buffer) => {
		if (!to.write(chunk)) from.pause();
	});
	to.on("drain", () => from.resume());
	if (from.readableEnded) to.end();
	else from.on("end", () => to.end());
	from.resume();
}

/** A write of nothing sends nothing, and fails on a connection that is broken. */
function probe(socket: Socket): void {
	const isUnwatched = socket.isPaused() || socket.readableEnded;
	if (isUnwatched && socket.writable && socket.writableLength === 0) socket.write(NOTHING);
}

function bytesSent(socket: Socket): number {
	return Math.max(0, socket.bytesWritten - socket.writableLength);
}
