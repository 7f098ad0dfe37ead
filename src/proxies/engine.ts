import type { ServiceCounts } from "../services/connection-counts.ts";
import type {
	ConnectionInterest,
	ConnectionRecord,
	ConnectionStart,
} from "../services/connection-record.ts";
import type { Port } from "../services/port.ts";
import type { Binding, ServicePort, ServicePortKey } from "../services/service-port.ts";
import type { DescriptorBudget } from "./descriptor-budget.ts";
import type { DropReason } from "./drop-reason.ts";

/**
 * What relays: opens a listener per ServicePort and carries its connections and flows to endpoints.
 *
 * The daemon drives it, make before break: {@link reconcile}, then the packet rules, then
 * {@link retire} for what no rule points at any more.
 */
export interface RelayEngine {
	readonly name: "stream" | "syscall";

	/** Where file descriptors are counted, for others in this process that hold some. */
	readonly descriptors: DescriptorBudget;

	/**
	 * Makes the listeners serve the wanted ServicePorts: opens the missing, hands the others their
	 * new endpoints and affinity, closes nothing. A listener keeps its proxy port for life.
	 *
	 * Never rejects for a single listener: what could not be opened is a problem in the answer, and
	 * is tried again at the next call. Not to be called again before it has resolved.
	 *
	 * @param wanted at most one per key.
	 */
	reconcile(wanted: readonly ServicePort[]): Promise<ReconcileOutcome>;

	/**
	 * Closes every listener that the last {@link reconcile} did not want and `referenced` does not
	 * hold. Connections that they accepted go on until they end.
	 *
	 * @param referenced the keys that packet rules in force still point at.
	 */
	retire(referenced: ReadonlySet<ServicePortKey>): void;

	/** TCP connections that live now and UDP flows that are in the table, newest last. */
	connections(): Promise<LiveConnection[]>;

	/**
	 * From now on the hooks need tell only of these one by one: an engine may save itself the others, and
	 * count them. At first all are wanted.
	 */
	want(interest: ConnectionInterest): void;

	/** The last records of those that it did not tell one by one, some 1,000 at most. */
	recent(): Promise<readonly ConnectionRecord[]>;

	/**
	 * Keys of the endpoints that failed lately and are tried last at present, by ServicePort; only
	 * ServicePorts that have some.
	 */
	failingEndpoints(): Promise<ReadonlyMap<ServicePortKey, readonly string[]>>;

	stats(): EngineStats;

	/** Resolves when no TCP connection is left, or after `timeoutMs`, with the number that is left. */
	drain(timeoutMs: number): Promise<number>;

	/** Destroys everything that is left. Idempotent; resolves when nothing of it is open. */
	close(): Promise<void>;
}

export interface ReconcileOutcome {
	/** One per wanted ServicePort that has a listener; the same list as before while it says the same. */
	readonly bindings: readonly Binding[];
	readonly problems: readonly ListenProblem[];
}

export interface ListenProblem {
	readonly key: ServicePortKey;
	readonly name: string;
	readonly error: Error;
}

export interface LiveConnection {
	readonly id: string;
	readonly protocol: "tcp" | "udp";
	readonly service: string;
	readonly client: string;
	/** Undefined while dialing. */
	readonly endpoint: string | undefined;
	readonly startedAtMs: number;
	readonly bytesIn: number;
	readonly bytesOut: number;
	readonly state: "dialing" | "open" | "half-closed";
}

export interface EngineStats {
	readonly listeners: number;
	readonly tcpConnections: number;
	/** Of these, those that wait unread for descriptors before they are dialed for. */
	readonly waitingConnections: number;
	readonly udpFlows: number;
	/** Datagrams dropped since the start. */
	readonly droppedDatagrams: number;
	/** The same by why; every reason is there. */
	readonly droppedDatagramsByReason: ReadonlyMap<DropReason, number>;
	/** UDP flows that had to make room for others, since the start. */
	readonly evictedFlows: number;
	/** Clients that session affinity forgot because a ServicePort had too many, since the start. */
	readonly affinityEvictions: number;
	/** Threads that relay, beside the engine's own. */
	readonly workers: number;
	/** Of them, how many make many system calls by one, through io_uring. */
	readonly ioUringWorkers: number;
	/** Of them, how many ended by an error and were replaced, since the start. */
	readonly workerFailures: number;
	/** Undefined where none did. */
	readonly lastWorkerFailure: WorkerFailure | undefined;
	/** TCP connections refused for want of descriptors since the start. */
	readonly overloadRefusals: number;
	/** True while new TCP connections wait for descriptors. */
	readonly acceptPaused: boolean;
}

/** A thread that ended by an error. */
export interface WorkerFailure {
	/** Milliseconds since the epoch. */
	readonly atMs: number;
	readonly error: string;
}

/** Who hears of connections and flows. */
export interface ConnectionHooks {
	/** Called once for each connection or flow that is wanted, when it is over. Must not throw. */
	onConnectionEnd(record: ConnectionRecord): void;
	/** Called once for each connection or flow that is wanted, when it begins. Must not throw. */
	onConnectionStart(start: ConnectionStart): void;
}

/** What an engine is told at birth. */
export interface EngineHooks extends ConnectionHooks {
	/** Beginnings and ends that were told by none of the others, in sum. Must not throw. */
	onCounted(counts: ServiceCounts): void;
}

/** Which port a ServicePort would like, because rules of a predecessor already point at it. */
export type PreferredPorts = ReadonlyMap<ServicePortKey, Port>;
