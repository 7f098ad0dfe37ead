import type { EndpointNews } from "../../balancing/pick.ts";
import type { LiveConnection } from "../engine.ts";
import type { RelayContext, UdpLimits, UdpRelay } from "../listener.ts";
import { createUdpRelay } from "../udp/udp-relay.ts";
import type { CallQueue } from "./call-queue.ts";
import { DatagramExchange } from "./datagram-exchange.ts";
import type { ListenerWatch } from "./listener-watch.ts";
import type { OpenMessage } from "./messages.ts";
import type { Poller } from "./poller.ts";
import { type CreateBalancer, failingOf, ServedPort } from "./served-port.ts";
import { UdpPort } from "./udp-port.ts";
import { UdpSocket, type UdpSocketHost } from "./udp-socket.ts";

/** What both halves of a worker use. */
export interface UdpWorkerParts {
	readonly poller: Poller;
	readonly calls: CallQueue;
	readonly watch: ListenerWatch;
	readonly createBalancer: CreateBalancer;
	/** To be told of each descriptor that is opened here. */
	opened(fd: number): void;
}

/** The UDP half of a worker. */
export class UdpWorker {
	readonly relay: UdpRelay;
	readonly #host: UdpSocketHost;
	readonly #watch: ListenerWatch;
	readonly #createBalancer: CreateBalancer;
	readonly #served = new Map<number, UdpPort>();

	constructor(context: RelayContext, limits: UdpLimits, parts: UdpWorkerParts) {
		const { poller, calls, watch, createBalancer } = parts;
		const opened = (fd: number): void => parts.opened(fd);
		this.#host = { poller, exchange: new DatagramExchange(calls), opened };
		this.#watch = watch;
		this.#createBalancer = createBalancer;
		this.relay = createUdpRelay(context, limits, () => new UdpSocket(this.#host));
	}

	/** Serves a ServicePort at these bound sockets, too. */
	open({ listener, turn, fds, servicePort: text, sibling }: OpenMessage): void {
		const before = this.#served.get(listener);
		before?.update(text);
		const served = before?.served ?? new ServedPort(listener, turn, text, this.#createBalancer);
		const port = before ?? new UdpPort(served, this.relay, this.#host, this.#watch);
		this.#served.set(listener, port);
		port.open(fds);
		const other = sibling === undefined ? undefined : this.#served.get(sibling);
		if (other !== undefined) served.joinWith(other.served);
	}

	/** Does nothing where it is none of this half's. */
	update(listener: number, text: string): void {
		this.#served.get(listener)?.update(text);
	}

	note(listener: number, endpointKey: string, news: EndpointNews): void {
		this.#served.get(listener)?.served.note(endpointKey, news);
	}

	/** Its flows end as "stopped"; its sockets stay open and are another's from now on. */
	release(listener: number): void {
		const port = this.#served.get(listener);
		if (port === undefined) return;
		this.#served.delete(listener);
		port.release();
	}

	/** At the end of each turn. */
	flush(): void {
		this.#host.exchange.flush();
	}

	connections(): readonly LiveConnection[] {
		return this.relay.connections();
	}

	failing(): ReadonlyMap<number, readonly string[]> {
		return failingOf(this.#served.values().map(({ served }) => served));
	}

	/** Ends everything so; the sockets of ServicePorts stay open. */
	stop(end: "stopped" | "relay-failed"): void {
		if (end === "relay-failed") this.relay.failFlows();
		for (const id of this.#served.keys()) this.release(id);
		void this.relay.close();
	}
}
