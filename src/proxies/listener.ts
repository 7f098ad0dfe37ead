import type { Balancer } from "../balancing/pick.ts";
import type { IpAddress } from "../services/address.ts";
import type { Port } from "../services/port.ts";
import type { Endpoint, Protocol, ServicePort } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import type { DescriptorBudget } from "./descriptor-budget.ts";
import type { DropReason } from "./drop-reason.ts";
import type { ConnectionHooks, LiveConnection } from "./engine.ts";
import type { DatagramSocket } from "./udp/datagram-socket.ts";
import type { UdpFault } from "./udp-faults.ts";

/** What it takes to relay for a ServicePort: the rest tells where its clients dial. */
export type RelayedPort = Pick<ServicePort, "name" | "family" | "endpoints" | "sessionAffinity">;

/** The listener of one ServicePort, whatever its protocol. Owns the ServicePort's balancer. */
export interface ServicePortListener {
	/** The local port, the same for life. */
	readonly proxyPort: Port;
	/** The one address that it is bound to, or undefined for all of its family. */
	readonly listenAddress: IpAddress | undefined;
	/** Where this thread chooses for it. */
	readonly balancer?: Balancer;

	/** Keys of the endpoints that are tried last at present, because they failed lately. */
	failingEndpoints(): readonly string[];

	/** Takes new endpoints, affinity and names of the same ServicePort. Disturbs nothing that goes on. */
	update(servicePort: RelayedPort): void;

	/**
	 * Closes the listening socket; its port is free when this returns. Idempotent.
	 *
	 * TCP connections that it accepted go on. UDP flows end as "stopped": nobody could carry their
	 * answers back.
	 */
	close(): void;
}

/** Where a listener is to be bound. */
export interface ListenTarget {
	/** Undefined: every address of the ServicePort's family. */
	readonly address: IpAddress | undefined;
	/** 0: the kernel chooses. */
	readonly port: Port | 0;
	/** The listener of the same port's other pool, or the one to be replaced: they share session affinity. */
	readonly sibling?: ServicePortListener | undefined;
	/** What chooses for it; undefined: one of its own, made by the context. */
	readonly balancer?: Balancer | undefined;
}

/** One protocol's half of an engine: opens listeners and carries what they accept. */
export interface ProtocolRelay {
	/**
	 * Opens a listener that serves `servicePort` at once.
	 *
	 * Rejects with the system's error, its `code` intact; nothing of it is open then. The engine
	 * decides about ports: on EADDRINUSE it calls again with another one.
	 */
	open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener>;

	/** What lives now, that of closed listeners too, oldest first. */
	connections(): LiveConnection[];

	/** How many {@link connections} would return. */
	count(): number;

	/** Ends everything that lives as "stopped"; resolves when nothing of it is open. Idempotent. */
	close(): Promise<void>;
}

export interface UdpRelay extends ProtocolRelay {
	/** The same as {@link open} for a socket that is bound already. */
	adopt(
		servicePort: RelayedPort,
		target: ListenTarget,
		socket: DatagramSocket,
	): ServicePortListener;

	/** Ends every flow as "relay-failed"; what is sent to its listeners makes new ones. */
	failFlows(): void;

	/** Since the start. */
	droppedDatagrams(): number;
	/** Since the start; every reason is there. */
	droppedByReason(): ReadonlyMap<DropReason, number>;
	/** Flows that had to make room for others, since the start. */
	evictedFlows(): number;
}

/** What both halves of an engine are given. */
export interface RelayContext {
	readonly hooks: ConnectionHooks;
	readonly clock: Clock;
	/** A balancer for one more ServicePort, which shares session affinity with a sibling's. */
	readonly createBalancer: (sibling: Balancer | undefined) => Balancer;
	/** Ids of connections and flows: short, unique in this process. */
	readonly nextId: () => string;
	/** Runs something again and again, without keeping the process alive. @returns ends that. */
	readonly repeat: (periodMs: number, run: () => void) => () => void;
	/**
	 * True for an endpoint that is one of our own listeners: what is sent there would come back, go
	 * round for ever and multiply.
	 */
	readonly leadsBack: (protocol: Protocol, endpoint: Endpoint) => boolean;
	/** Is told of each datagram that is not passed on, and of each flow that has to make room. */
	readonly onUdpFault: (fault: UdpFault) => void;
	/** One descriptor per listener and per UDP flow, two per TCP connection. */
	readonly budget: DescriptorBudget;
}

/** How long TCP connections may take or rest; all in milliseconds. */
export interface TcpLimits {
	/** One per dial attempt; at least one. */
	readonly dialTimeoutsMs: readonly number[];
	/** How long one direction may be silent when the other has ended. */
	readonly halfCloseIdleMs: number;
	/** How long a connection to an endpoint that was removed may go on; undefined: until it ends. */
	readonly drainRemovedMs?: number | undefined;
}

/** UDP's limits; see Config for what they mean. */
export interface UdpLimits {
	readonly idleMs: number;
	readonly firstAnswerMs: number;
	/** Over all listeners of the engine. */
	readonly maxFlows: number;
}
