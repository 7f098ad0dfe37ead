import type { EndpointNews } from "../../balancing/pick.ts";
import { EPOLLIN } from "../../system/libc.ts";
import type { ListenerWatch, WatchedSocket } from "./listener-watch.ts";
import type { OpenMessage } from "./messages.ts";
import { type CreateBalancer, failingOf, ServedPort } from "./served-port.ts";
import { SocketAddress } from "./socket-address.ts";
import { TcpAcceptor, type TcpAcceptorHost } from "./tcp-acceptor.ts";

export interface TcpListenersHost {
	readonly watch: ListenerWatch;
	readonly createBalancer: CreateBalancer;
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
			onClosed: (listenFd) => host.watch.end(listenFd),
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
		for (const fd of served.addSockets(fds)) this.#host.watch.begin(watched(fd, acceptor));
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
		for (const fd of served.fds) this.#host.watch.end(fd);
	}

	releaseAll(): void {
		for (const listener of this.#served.keys()) this.release(listener);
	}

	#onFault(acceptor: TcpAcceptor, fd: number, code: string): void {
		this.#host.onAcceptFault(acceptor.served, code);
		this.#host.watch.pause(watched(fd, acceptor));
	}
}

function watched(fd: number, acceptor: TcpAcceptor): WatchedSocket {
	return { fd, events: EPOLLIN, handler: acceptor, served: acceptor.served };
}
