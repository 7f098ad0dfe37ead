import { accept4, EAGAIN } from "../../system/libc.ts";
import { codeOf } from "../../system/system-error.ts";
import type { PollHandler } from "./poller.ts";
import type { ServedPort } from "./served-port.ts";
import type { SocketAddress } from "./socket-address.ts";

/** Clients accepted by one event at most: others have their turn between. */
const MAX_BURST = 64;

/** What all acceptors of a worker share. */
export interface TcpAcceptorHost {
	/** Where a client's address is put. */
	readonly address: SocketAddress;
	/** `address` is the client's until this returns. */
	onAccepted(served: ServedPort, fd: number): void;
	/** It is closed to clients for good. */
	onClosed(listenFd: number): void;
	/** Accepting failed for another reason than that nobody is there. */
	onFault(acceptor: TcpAcceptor, listenFd: number, code: string): void;
}

/**
 * Accepts from the listening sockets of one ServicePort, as many at a time as came the last times: a lone
 * client costs one call, and a storm few events.
 */
export class TcpAcceptor implements PollHandler {
	readonly served: ServedPort;
	readonly #host: TcpAcceptorHost;
	#burst = 1;

	constructor(served: ServedPort, host: TcpAcceptorHost) {
		this.served = served;
		this.#host = host;
	}

	onEvents(fd: number): void {
		const { address } = this.#host;
		for (let count = 0; count < this.#burst; count += 1) {
			const accepted = accept4(fd, address.bytes);
			if (accepted < 0) {
				this.#burst = Math.max(1, count);
				if (accepted !== -EAGAIN) this.#failed(fd, codeOf(accepted));
				return;
			}
			this.#host.onAccepted(this.served, accepted);
		}
		this.#burst = Math.min(MAX_BURST, this.#burst * 2);
	}

	#failed(fd: number, code: string): void {
		// Gone before we came to it: the next one, at the next event.
		if (code === "ECONNABORTED") return;
		// The engine's thread has closed it to clients: we are told to let go of it in a moment.
		if (code === "EINVAL") this.#host.onClosed(fd);
		else this.#host.onFault(this, fd, code);
	}
}
