import { accept4, EAGAIN } from "./libc.ts";
import type { PollHandler } from "./poller.ts";
import { SocketAddress } from "./socket-address.ts";
import { codeOf } from "./system-error.ts";

/** Clients accepted by one event at most: others have their turn between. */
const MAX_BURST = 64;

export interface TcpAcceptorHost {
	/** @param address of the client; to be read before this returns. */
	onAccepted(fd: number, address: SocketAddress): void;
	/** It is closed to clients for good. */
	onClosed(listenFd: number): void;
	/** Accepting failed for another reason than that nobody is there. */
	onFault(listenFd: number, code: string): void;
}

/**
 * Accepts from one listening socket, as many at a time as came the last times: a lone client costs one
 * call, and a storm few events.
 */
export class TcpAcceptor implements PollHandler {
	readonly #host: TcpAcceptorHost;
	readonly #address: SocketAddress = new SocketAddress();
	#burst = 1;

	constructor(host: TcpAcceptorHost) {
		this.#host = host;
	}

	onEvents(fd: number): void {
		for (let count = 0; count < this.#burst; count += 1) {
			const accepted = accept4(fd, this.#address.bytes);
			if (accepted < 0) {
				this.#burst = Math.max(1, count);
				if (accepted !== -EAGAIN) this.#failed(fd, codeOf(accepted));
				return;
			}
			this.#host.onAccepted(accepted, this.#address);
		}
		this.#burst = Math.min(MAX_BURST, this.#burst * 2);
	}

	#failed(fd: number, code: string): void {
		// Gone before we came to it: the next one, at the next event.
		if (code === "ECONNABORTED") return;
		// The engine's thread has closed it to clients: we are told to let go of it in a moment.
		if (code === "EINVAL") this.#host.onClosed(fd);
		else this.#host.onFault(fd, code);
	}
}
