import type { IpFamily } from "./address.ts";
import type { ConnectionRecord } from "./connection-record.ts";
import type { EndpointPool, Protocol } from "./service-port.ts";

/**
 * What the running daemon tells about itself as JSON: written by the daemon, read by
 * `kube-userproxy status` and `kube-userproxy connections`. Fields whose type allows undefined are
 * absent from the JSON then.
 */

/** Path of a {@link StatusReport} on the metrics address. */
export const STATUS_PATH = "/status";

/** Path of a {@link ConnectionsReport} on the metrics address. */
export const CONNECTIONS_PATH = "/connections";

/** Path of a {@link RecentConnectionsReport} on the metrics address. */
export const RECENT_CONNECTIONS_PATH = "/connections/recent";

/** Path of an endless answer: one {@link ConnectionEvent} as JSON per line, as they happen. */
export const CONNECTION_EVENTS_PATH = "/connections/watch";

export interface StatusReport {
	/** Of the program. */
	readonly version: string;
	readonly pid: number;
	readonly nodeName: string;
	/** Milliseconds since the epoch, as all moments here. */
	readonly startedAtMs: number;
	/** True when every source has delivered, listeners are open and rules are in force. */
	readonly ready: boolean;
	readonly sources: readonly SourceReport[];
	readonly rules: RulesReport;
	/** Undefined while nothing relays yet. */
	readonly relay: RelayReport | undefined;
	/** When the listeners last took over the newest state; undefined before the first time. */
	readonly lastSyncAtMs: number | undefined;
	readonly logConnections: "off" | "errors" | "all";
	readonly servicePorts: readonly ServicePortReport[];
}

/** The state of one source; what sources/source.ts calls SourceStatus. */
export interface SourceReport {
	readonly name: string;
	readonly synced: boolean;
	/** When its state was last known to be the newest; undefined before the first complete one. */
	readonly freshAtMs: number | undefined;
	readonly problem: string | undefined;
	/** Objects left out at present, at most 100. */
	readonly rejected: readonly { readonly object: string; readonly problems: readonly string[] }[];
}

interface RulesReport {
	/** "iptables (nf_tables) 1.8.9", "none": for people; undefined until it has been found out. */
	readonly backend: string | undefined;
	/** When rules were last applied, or found to be as they should. */
	readonly lastVerifiedAtMs: number | undefined;
	/** What goes wrong at present; undefined when all is well. */
	readonly problem: string | undefined;
}

/** What moves the bytes. */
export interface RelayReport {
	readonly engine: "stream" | "syscall";
	/** Threads that relay, beside the first; 0 where that one does. */
	readonly workers: number;
	/** Of them, how many make many system calls by one, through io_uring. */
	readonly ioUringWorkers: number;
	/** Why `--relay auto` is not `syscall` here; undefined where it is, or where nobody left it the choice. */
	readonly fallbackReason: string | undefined;
	/** Workers that ended by an error and were replaced, since the start. */
	readonly workerFailures: number;
	readonly lastWorkerFailure: { readonly atMs: number; readonly error: string } | undefined;
}

export interface ServicePortReport {
	/** "shop/cart:http". */
	readonly name: string;
	/** "shop/cart:http/tcp/ipv4". */
	readonly key: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	/** "local": only endpoints on this node, as a traffic policy of the Service wants it. */
	readonly pool: EndpointPool;
	readonly virtualAddresses: readonly string[];
	/** The port that clients dial. */
	readonly port: number;
	/** The port on the node's own addresses, where there is one. */
	readonly nodePort: number | undefined;
	/** Undefined while no listener is open; `problem` says why. */
	readonly proxyPort: number | undefined;
	readonly endpoints: readonly EndpointReport[];
	/** What clients are told while there is no endpoint. */
	readonly whenEmpty: "reject" | "drop";
	/** TCP connections or UDP flows that live now. */
	readonly connections: number;
	readonly problem: string | undefined;
}

interface EndpointReport {
	/** "10.2.1.2:8080". */
	readonly endpoint: string;
	/** `failing`: it failed lately and is tried last for the time being. */
	readonly state: "ok" | "failing";
}

export interface ConnectionsReport {
	/** Oldest first. */
	readonly connections: readonly ConnectionReport[];
	/** How many there are, when the list was cut; else as many as the list has. */
	readonly total: number;
}

export interface RecentConnectionsReport {
	/** The last that have ended, at most 1,000, oldest first. */
	readonly records: readonly ConnectionRecord[];
}

/** One TCP connection or UDP flow that lives; what proxies/engine.ts calls LiveConnection. */
export interface ConnectionReport {
	readonly id: string;
	readonly protocol: Protocol;
	/** "shop/cart:http". */
	readonly service: string;
	/** "10.1.0.2:41234". */
	readonly client: string;
	/** Undefined while dialing. */
	readonly endpoint: string | undefined;
	readonly startedAtMs: number;
	/** From the client to the endpoint. */
	readonly bytesIn: number;
	readonly bytesOut: number;
	readonly state: "dialing" | "open" | "half-closed";
}

/** One line of {@link CONNECTION_EVENTS_PATH}. */
export type ConnectionEvent =
	| {
			readonly event: "started";
			readonly atMs: number;
			readonly protocol: Protocol;
			readonly service: string;
			readonly id: string;
			readonly client: string;
	  }
	| { readonly event: "ended"; readonly record: ConnectionRecord }
	/** Lines were left out because this reader was too slow. */
	| { readonly event: "dropped"; readonly count: number };
