import type { ServicePortListener, UdpRelay } from "../listener.ts";
import type { ListenerWatch } from "./listener-watch.ts";
import type { PollHandler } from "./poller.ts";
import type { ServedPort } from "./served-port.ts";
import { UDP_EVENTS, UdpSocket, type UdpSocketHost } from "./udp-socket.ts";

/** A socket that has had a datagram. */
interface Awake {
	readonly socket: UdpSocket;
	readonly listener: ServicePortListener;
}

/** A ServicePort whose datagrams one worker relays: a listener for each socket of it, from the first datagram on. */
export class UdpPort implements PollHandler {
	readonly served: ServedPort;
	readonly #relay: UdpRelay;
	readonly #host: UdpSocketHost;
	readonly #watch: ListenerWatch;
	/** By descriptor. */
	#awake: Map<number, Awake> | undefined;

	constructor(served: ServedPort, relay: UdpRelay, host: UdpSocketHost, watch: ListenerWatch) {
		this.served = served;
		this.#relay = relay;
		this.#host = host;
		this.#watch = watch;
	}

	/** At these sockets, too. */
	open(fds: readonly number[]): void {
		const { served } = this;
		for (const fd of served.addSockets(fds)) {
			this.#watch.begin({ fd, events: UDP_EVENTS, handler: this, served });
		}
	}

	/** The first datagram is there. */
	onEvents(fd: number, events: number): void {
		const { served } = this;
		const socket = new UdpSocket(this.#host, fd);
		const { balancer } = served;
		const listener = this.#relay.adopt(
			served.port,
			{ address: undefined, port: 0, balancer },
			socket,
		);
		this.#awake ??= new Map();
		this.#awake.set(fd, { socket, listener });
		socket.onEvents(fd, events);
	}

	/** @param text of writeRelayedPort. */
	update(text: string): void {
		this.served.update(text);
		for (const { listener } of this.#awake?.values() ?? []) listener.update(this.served.port);
	}

	/** Its flows end as "stopped"; its sockets stay open and are another's from now on. */
	release(): void {
		for (const fd of this.served.fds) {
			const awake = this.#awake?.get(fd);
			if (awake === undefined) {
				this.#watch.end(fd);
			} else {
				awake.socket.release();
				awake.listener.close();
			}
		}
	}
}
