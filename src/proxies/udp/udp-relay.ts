import type { ServicePort } from "../../services/service-port.ts";
import type { DropReason } from "../drop-reason.ts";
import type { LiveConnection } from "../engine.ts";
import type {
	ListenTarget,
	RelayContext,
	RelayedPort,
	ServicePortListener,
	UdpLimits,
	UdpRelay,
} from "../listener.ts";
import type { CreateDatagramSocket, DatagramSocket } from "./datagram-socket.ts";
import { UdpDrops } from "./udp-drops.ts";
import type { UdpFlow } from "./udp-flow.ts";
import { FlowTable } from "./udp-flow-table.ts";
import { HeldBytes } from "./udp-held-bytes.ts";
import {
	adoptUdpSocket,
	openUdpListener,
	type UdpListener,
	type UdpShared,
} from "./udp-listener.ts";

/*
 * The UDP half of an engine, over whatever sockets it has. udp-listener.ts has the one socket of a ServicePort that
 * clients reach; udp-flow.ts what one client says there, over a udp-endpoint-socket.ts connected to
 * one endpoint; udp-flow-table.ts bounds the flows of all listeners; udp-drops.ts counts what was
 * not passed on. Put together here, with the one timer that ends silent flows. Nothing is awaited
 * and no timer is set for a datagram or a flow.
 */

/** Datagrams that may wait for the kernel, over all flows. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

/** First datagrams kept in case their endpoint refuses them, over all flows. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/** Silent flows are looked for so often, and oftener where the limits are shorter. */
const SWEEP_MS = 1000;
const MIN_SWEEP_MS = 50;

export function createUdpRelay(
	context: RelayContext,
	limits: UdpLimits,
	createSocket: CreateDatagramSocket,
): UdpRelay {
	return new ListenersAndFlows(context, limits, createSocket);
}

class ListenersAndFlows implements UdpRelay {
	readonly #context: RelayContext;
	readonly #table: FlowTable<UdpFlow>;
	readonly #drops: UdpDrops;
	readonly #shared: UdpShared;
	readonly #listeners = new Set<UdpListener>();
	readonly #shortestWaitMs: number;
	#stopSweeping: (() => void) | undefined;
	#isClosed: boolean = false;

	constructor(context: RelayContext, limits: UdpLimits, createSocket: CreateDatagramSocket) {
		this.#context = context;
		this.#shortestWaitMs = Math.min(limits.idleMs, limits.firstAnswerMs);
		this.#drops = new UdpDrops(context.onUdpFault);
		this.#table = new FlowTable(limits.maxFlows, (flow) => {
			this.#drops.evict(flow.service);
			flow.end("evicted");
		});
		this.#shared = {
			context,
			limits,
			createSocket,
			table: this.#table,
			drops: this.#drops,
			waitingBytes: new HeldBytes(MAX_WAITING_BYTES),
			keptBytes: new HeldBytes(MAX_KEPT_BYTES),
			takeDescriptor: () => this.#takeDescriptor(),
			wake: () => this.#wake(),
			onClose: (listener) => this.#listeners.delete(listener),
		};
	}

	async open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener> {
		const listener = await openUdpListener(servicePort, target, this.#shared);
		if (this.#isClosed) {
			listener.close();
			throw new Error(`Cannot listen for "${servicePort.name}": the relay is closed`);
		}
		this.#listeners.add(listener);
		return listener;
	}

	adopt(
		servicePort: RelayedPort,
		target: ListenTarget,
		socket: DatagramSocket,
	): ServicePortListener {
		const listener = adoptUdpSocket(servicePort, target, socket, this.#shared);
		this.#listeners.add(listener);
		return listener;
	}

	failFlows(): void {
		for (const flow of this.#table.flows()) flow.end("relay-failed");
	}

	connections(): LiveConnection[] {
		return this.#table
			.flows()
			.map((flow) => flow.describe())
			.toSorted((a, b) => a.startedAtMs - b.startedAtMs);
	}

	count(): number {
		return this.#table.size;
	}

	droppedDatagrams(): number {
		return this.#drops.dropped;
	}

	droppedByReason(): ReadonlyMap<DropReason, number> {
		return this.#drops.byReason();
	}

	evictedFlows(): number {
		return this.#drops.evicted;
	}

	/** Sockets are closed when this returns: libuv closes descriptors in the call. */
	close(): Promise<void> {
		this.#isClosed = true;
		for (const listener of this.#listeners) listener.close();
		this.#stopSweeping?.();
		this.#stopSweeping = undefined;
		return Promise.resolve();
	}

	#takeDescriptor(): boolean {
		const { budget } = this.#context;
		this.#table.makeRoom();
		return budget.tryTake(1) || (this.#table.evictOne() && budget.tryTake(1));
	}

	#wake(): void {
		if (this.#stopSweeping !== undefined || this.#isClosed) return;
		const sweepMs = Math.max(MIN_SWEEP_MS, Math.min(SWEEP_MS, this.#shortestWaitMs / 4));
		this.#stopSweeping = this.#context.repeat(sweepMs, () => this.#sweep());
	}

	#sweep(): void {
		const nowMs = this.#context.clock.monotonicMs();
		for (const flow of this.#table.idleFor(this.#shortestWaitMs, nowMs)) {
			const end = flow.expiry(nowMs);
			if (end !== undefined) flow.end(end);
		}
		if (this.#table.size > 0) return;
		this.#stopSweeping?.();
		this.#stopSweeping = undefined;
	}
}
