import { type BalancerOptions, createBalancer } from "../../balancing/balancer.ts";
import type { Balancer } from "../../balancing/pick.ts";
import type { ServicePort } from "../../services/service-port.ts";
import type { LiveConnection } from "../engine.ts";
import type { RelayContext, ServicePortListener, UdpLimits, UdpRelay } from "../listener.ts";
import { createUdpRelay } from "../udp/udp-relay.ts";
import type { CallQueue } from "./call-queue.ts";
import { DatagramExchange } from "./datagram-exchange.ts";
import type { Poller } from "./poller.ts";
import { UdpSocket, type UdpSocketHost } from "./udp-socket.ts";

/** A ServicePort as one worker serves it: a listener for each socket, of one mind. */
interface Served {
	readonly listeners: ServicePortListener[];
	readonly sockets: UdpSocket[];
	readonly balancer: Balancer;
}

/** The UDP half of a worker. */
export class UdpWorker {
	readonly relay: UdpRelay;
	readonly #host: UdpSocketHost;
	readonly #served = new Map<number, Served>();

	constructor(
		context: RelayContext,
		limits: UdpLimits,
		poller: Poller,
		calls: CallQueue,
		opened: (fd: number) => void,
	) {
		this.#host = { poller, exchange: new DatagramExchange(calls), opened };
		this.relay = createUdpRelay(context, limits, () => new UdpSocket(this.#host));
	}

	open(
		id: number,
		fds: readonly number[],
		servicePort: ServicePort,
		options: BalancerOptions,
		sibling: number | undefined,
	): void {
		const before = this.#served.get(id);
		const balancer =
			before?.balancer ??
			createBalancer({
				...options,
				sibling: sibling === undefined ? undefined : this.#served.get(sibling)?.balancer,
			});
		const served = before ?? { listeners: [], sockets: [], balancer };
		this.#served.set(id, served);
		for (const fd of fds) {
			const socket = new UdpSocket(this.#host, fd);
			served.sockets.push(socket);
			served.listeners.push(
				this.relay.adopt(servicePort, { address: undefined, port: 0, balancer }, socket),
			);
		}
	}

	/** @returns false where it is none of this half's. */
	update(id: number, servicePort: ServicePort): boolean {
		const served = this.#served.get(id);
		for (const listener of served?.listeners ?? []) listener.update(servicePort);
		return served !== undefined;
	}

	balancer(id: number): Balancer | undefined {
		return this.#served.get(id)?.balancer;
	}

	/** Its flows end as "stopped"; its sockets stay open and are another's from now on. */
	release(id: number): boolean {
		const served = this.#served.get(id);
		if (served === undefined) return false;
		this.#served.delete(id);
		for (const socket of served.sockets) socket.release();
		for (const listener of served.listeners) listener.close();
		return true;
	}

	/** At the end of each turn. */
	flush(): void {
		this.#host.exchange.flush();
	}

	connections(): readonly LiveConnection[] {
		return this.relay.connections();
	}

	failing(): ReadonlyMap<number, readonly string[]> {
		const failing = new Map<number, readonly string[]>();
		for (const [id, { balancer }] of this.#served) {
			const endpoints = balancer.failing();
			if (endpoints.length > 0) failing.set(id, endpoints);
		}
		return failing;
	}

	/** Ends everything so; the sockets of ServicePorts stay open. */
	stop(end: "stopped" | "relay-failed"): void {
		if (end === "relay-failed") this.relay.failFlows();
		for (const id of this.#served.keys()) this.release(id);
		void this.relay.close();
	}
}
