import type { IpAddress, IpFamily } from "./address.ts";
import type { Protocol } from "./service-port.ts";

/** What is known when a TCP connection or UDP flow begins. Its id is that of the later record. */
export interface ConnectionStart {
	readonly id: string;
	readonly protocol: Protocol;
	/** The ServicePort's name. */
	readonly service: string;
	readonly clientAddress: IpAddress;
	readonly clientPort: number;
}

/**
 * What is known about one relayed TCP connection or UDP flow when it is over: the one record that
 * the connection log, the metrics and `kube-userproxy connections` are made of.
 */
export interface ConnectionRecord {
	/** Unique while the process lives: "1f3". */
	readonly id: string;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	/** The ServicePort's name, "shop/cart:http". */
	readonly service: string;
	/** "10.1.0.2:41234". */
	readonly client: string;
	/** Key of the endpoint that served it, or undefined when none did. */
	readonly endpoint: string | undefined;
	readonly podName: string | undefined;
	/** In the order in which they were made; at most 16, the count of all is `attemptCount`. */
	readonly attempts: readonly DialAttempt[];
	readonly attemptCount: number;
	/** How session affinity took part; undefined where the Service has none. */
	readonly affinity: AffinityOutcome | undefined;
	/** Bytes from the client to the endpoint. */
	readonly bytesIn: number;
	/** Bytes from the endpoint to the client. */
	readonly bytesOut: number;
	/** UDP only: datagrams each way. */
	readonly datagramsIn: number | undefined;
	readonly datagramsOut: number | undefined;
	/** Milliseconds since the epoch. */
	readonly startedAtMs: number;
	readonly durationMs: number;
	/** From accept to an open connection to the endpoint; undefined when none was reached. */
	readonly connectMs: number | undefined;
	readonly end: ConnectionEnd;
}

export interface DialAttempt {
	/** The endpoint's key. */
	readonly endpoint: string;
	readonly outcome: DialOutcome;
	readonly durationMs: number;
	/** The system's error code ("ECONNREFUSED"), where there was one. */
	readonly errorCode: string | undefined;
}

export type DialOutcome =
	| "connected"
	/** Answered "nobody listens here". */
	| "refused"
	/** No answer within the attempt's timeout. */
	| "timeout"
	/** No route, host down, network down. */
	| "unreachable"
	/** This node could not even try: out of descriptors, ports or memory. Says nothing of the endpoint. */
	| "local-error"
	/** The client went away meanwhile. */
	| "abandoned";

export type AffinityOutcome =
	/** The endpoint that this client had before. */
	| "kept"
	/** The client had none; it has this one now. */
	| "assigned"
	/** The client's endpoint failed or is gone; it has this one now. */
	| "moved";

export type ConnectionEnd =
	/** Both directions ended in order. */
	| "closed"
	| "client-reset"
	| "endpoint-reset"
	/** Keepalive found the peer gone. */
	| "client-vanished"
	| "endpoint-vanished"
	/** The client went away before an endpoint was reached. */
	| "client-gone"
	| "no-endpoint"
	/** Every attempt failed. */
	| "unreachable"
	/** One direction had ended and the other was silent for longer than the limit. */
	| "half-close-timeout"
	/** TCP: its endpoint had been removed, and the time that the operator gives such connections was over. */
	| "endpoint-removed"
	/** UDP: nothing was sent for the idle time. */
	| "idle"
	/** UDP: no answer ever came within the longer first wait. */
	| "unanswered"
	/** UDP: the table was full and this flow the least recently used. */
	| "evicted"
	/** UDP: the flow's endpoint went away or refused; the next datagram makes a new flow. */
	| "endpoint-gone"
	/** The ServicePort went away (UDP), or the daemon stopped and the drain time was over. */
	| "stopped"
	/** This node's own limits: descriptors, pending dials. */
	| "overload"
	/** The thread that relayed it failed; the log has the cause. */
	| "relay-failed";

/** Which connections and flows somebody wants to hear of one by one; the others are counted. */
export interface ConnectionInterest {
	readonly starts: boolean;
	readonly ends: "none" | "troubled" | "all";
}

/** Ends that nobody has to look into. */
const ORDERLY: ReadonlySet<ConnectionEnd> = new Set(["closed", "idle"]);

/** True where somebody may have to look into it. */
export function isTroubled(record: ConnectionRecord): boolean {
	return !ORDERLY.has(record.end) || hadFailedAttempt(record);
}

/** True where an endpoint did not answer, or a second try was needed. */
export function hadFailedAttempt({ attempts, attemptCount }: ConnectionRecord): boolean {
	return attemptCount > 1 || attempts.some(({ outcome }) => outcome !== "connected");
}
