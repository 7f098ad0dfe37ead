import type { EndpointNews } from "../../balancing/pick.ts";
import { EPOLLIN } from "../../system/libc.ts";
import type { OpenMessage } from "./messages.ts";
import type { Poller } from "./poller.ts";
import { type CreateBalancer, failingOf, ServedPort } from "./served-port.ts";
import { SocketAddress } from "./socket-address.ts";
import { TcpAcceptor, type TcpAcceptorHost } from "./tcp-acceptor.ts";

/** A listener whose accepting failed rests so long: what lacked may be there again. */
const FAULT_PAUSE_MS = 100;

export interface TcpListenersHost {
	readonly poller: Poller;
	readonly createBalancer: CreateBalancer;
	after(durationMs: number, run: () => void): void;
	/** @param from to be read before this returns. */
	onAccepted(served: ServedPort, fd: number, from: SocketAddress): void;
	onAcceptFault(served: ServedPort, code: string): void;
}

/** The ServicePorts whose TCP clients one worker accepts. */
export class TcpListeners {
	readonly #host: TcpListenersHost;
	readonly #served = new Map<number, ServedPort>();
	readonly #acceptorHost: TcpAcceptorHost;

	constructor(host: TcpListenersHost) {
		this.#host = host;
		const address = new SocketAddress();
		this.#acceptorHost = {
			address,
			onAccepted: (served, fd) => host.onAccepted(served, fd, address),
			onClosed: (listenFd) => host.poller.remove(listenFd),
			onFault: (acceptor, listenFd, code) => this.#onFault(acceptor, listenFd, code),
		};
	}

	/** Serves a ServicePort at these listening sockets, too. */
	open({ listener, turn, fds, servicePort: text, sibling }: OpenMessage): void {
		const before = this.#served.get(listener);
		before?.update(text);
		const served = before ?? new ServedPort(listener, turn, text, this.#host.createBalancer);
		this.#served.set(listener, served);
		const other = sibling === undefined ? undefined : this.#served.get(sibling);
		if (other !== undefined) served.joinWith(other);
		const acceptor = new TcpAcceptor(served, this.#acceptorHost);
		for (const fd of served.addSockets(fds)) this.#host.poller.add(fd, EPOLLIN, acceptor);
	}

	/** Does nothing where it is none of these. */
	update(listener: number, text: string): void {
		this.#served.get(listener)?.update(text);
	}

	note(listener: number, endpointKey: string, news: EndpointNews): void {
		this.#served.get(listener)?.note(endpointKey, news);
	}

	failing(): ReadonlyMap<number, readonly string[]> {
		return failingOf(this.#served.values());
	}

	/** Its sockets stay open and are another's from now on. */
	release(listener: number): void {
		const served = this.#served.get(listener);
		if (served === undefined) return;
		this.#served.delete(listener);
		for (const fd of served.fds) this.#host.poller.remove(fd);
	}

	releaseAll(): void {
		for (const listener of this.#served.keys()) this.release(listener);
	}

	#onFault(acceptor: TcpAcceptor, fd: number, code: string): void {
		const { served } = acceptor;
		this.#host.onAcceptFault(served, code);
		this.#host.poller.remove(fd);
		this.#host.after(FAULT_PAUSE_MS, () => {
			const isServed = this.#served.get(served.listener) === served;
			if (isServed) this.#host.poller.add(fd, EPOLLIN, acceptor);
		});
	}
}
