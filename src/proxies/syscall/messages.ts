import type { EndpointNews } from "../../balancing/pick.ts";
import type { ServiceCounts } from "../../services/connection-counts.ts";
import type {
	ConnectionInterest,
	ConnectionRecord,
	ConnectionStart,
} from "../../services/connection-record.ts";
import type { Protocol } from "../../services/service-port.ts";
import { DROP_REASONS } from "../drop-reason.ts";
import type { LiveConnection } from "../engine.ts";
import type { TcpLimits, UdpLimits } from "../listener.ts";
import type { NodeFault } from "../node-faults.ts";
import type { UdpFault } from "../udp-faults.ts";

/** What the thread of the engine and its workers say to each other; all of it can be cloned. */

/** What a worker is told at birth. */
export interface WorkerSettings extends TcpLimits {
	/** 0 for the first. */
	readonly index: number;
	/** Of all workers, so that ids are unique. */
	readonly workers: number;
	/** The eventfd that is signalled when there is a message and the worker would not look by itself. */
	readonly wakeFd: number;
	readonly shared: SharedState;
	/** Accepted connections that may wait for descriptors. */
	readonly maxWaiting: number;
	readonly maxDialing: number;
	/** Clients of one ServicePort that session affinity remembers; undefined: as many as usual. */
	readonly maxAffinityClients: number | undefined;
	readonly descriptorLimit: number;
	readonly sweepMs: number;
	/** Whether calls are to be made through io_uring, where a ring can be had. */
	readonly ioUring: boolean;
	readonly interest: ConnectionInterest;
	/** This worker's share of the flows. */
	readonly udp: UdpLimits;
}

/** Memory that all threads see. */
export interface SharedState {
	/** Descriptors in use: of all, then by worker. */
	readonly descriptors: Int32Array;
	/** Accepted connections that wait for descriptors: of all, then by worker. */
	readonly waiting: Int32Array;
	/** By descriptor: 1 + the index of the worker that has it open, 0 for none. */
	readonly owners: Uint8Array;
	/** By port: a bit for each protocol and family in which it is a proxy port of ours. */
	readonly ownPorts: Uint8Array;
	/** By worker: 1 while it will look for messages anyway. */
	readonly woken: Int32Array;
	/** COUNTERS numbers for each worker. */
	readonly counters: Float64Array;
	/** By rotation: whose turn it is. */
	readonly turns: Int32Array;
}

/** Numbers that a worker keeps up to date for the others to read. */
export const COUNTERS = {
	connections: 0,
	waiting: 1,
	overloadRefusals: 2,
	/** The number of its last connection: a successor goes on from there, so that no id comes twice. */
	lastId: 3,
	udpFlows: 4,
	evictedFlows: 5,
	/** 1 while its calls are made through io_uring. */
	ioUring: 6,
} as const;
/** Behind them, the dropped datagrams by reason, in the order of DROP_REASONS. */
export const FIRST_DROP_COUNTER = 7;
export const COUNTER_COUNT: number = FIRST_DROP_COUNTER + DROP_REASONS.length;

/** It is to serve a ServicePort. */
export interface OpenMessage {
	readonly kind: "open";
	readonly listener: number;
	/** Sockets that listen or are bound; more of them where the listener is known already. */
	readonly fds: readonly number[];
	readonly protocol: Protocol;
	/** Of writeRelayedPort. */
	readonly servicePort: string;
	/** The listener of the same port's other pool, or the one to be replaced: they share session affinity. */
	readonly sibling: number | undefined;
	/** Index in SharedState.turns. */
	readonly turn: number;
}

export type ToWorker =
	| OpenMessage
	| { readonly kind: "update"; readonly listener: number; readonly servicePort: string }
	/** Its sockets are another's, or to be closed: an answer "released" follows. */
	| { readonly kind: "release"; readonly listener: number }
	/** What another worker has found out. */
	| {
			readonly kind: "note";
			readonly listener: number;
			readonly endpointKey: string;
			readonly news: EndpointNews;
	  }
	| { readonly kind: "want"; readonly interest: ConnectionInterest }
	/** There is room for one of its connections that wait. */
	| { readonly kind: "room" }
	| { readonly kind: "ask"; readonly request: number; readonly what: Question }
	| { readonly kind: "stop" };

export type Question = "nothing" | "connections" | "failing" | "recent";

export interface Answers {
	readonly nothing: undefined;
	readonly connections: readonly LiveConnection[];
	/** By listener. */
	readonly failing: ReadonlyMap<number, readonly string[]>;
	readonly recent: readonly ConnectionRecord[];
}

export type FromWorker =
	| {
			readonly kind: "happened";
			/** Before the events: of what they do not tell. */
			readonly counts: readonly ServiceCounts[];
			/** In the order in which they happened. */
			readonly events: readonly ConnectionEvent[];
	  }
	| { readonly kind: "answer"; readonly request: number; readonly answer: Answers[Question] }
	| { readonly kind: "released"; readonly listener: number }
	/** A connection has given back its descriptors, and connections of several workers wait for them. */
	| { readonly kind: "room" }
	| {
			readonly kind: "news";
			readonly listener: number;
			readonly endpointKey: string;
			readonly news: EndpointNews;
	  };

export type ConnectionEvent =
	| { readonly start: ConnectionStart }
	| { readonly record: ConnectionRecord }
	| { readonly fault: NodeFault }
	| { readonly udpFault: UdpFault }
	/** Session affinity forgot a client. */
	| "client-forgotten";
