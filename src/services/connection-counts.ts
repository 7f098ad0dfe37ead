import type { ConnectionEnd, ConnectionRecord, DialOutcome } from "./connection-record.ts";
import type { Protocol } from "./service-port.ts";

/** In seconds: same node, same zone, far, lost packets, each of the default dial timeouts. */
export const CONNECT_BOUNDS_SECONDS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5];

/** What the connections and flows of one ServicePort came to, in sum. A plain object that can be cloned. */
export interface ConnectionCounts {
	started: number;
	ended: number;
	bytesIn: number;
	bytesOut: number;
	readonly ends: Map<ConnectionEnd, number>;
	readonly attempts: Map<DialOutcome, number>;
	/** One per bound of {@link CONNECT_BOUNDS_SECONDS}, each without the smaller ones. */
	readonly connectBuckets: number[];
	connectCount: number;
	connectSeconds: number;
}

/** Of whom the counts are. */
export interface ServiceCounts {
	readonly protocol: Protocol;
	/** The ServicePort's name. */
	readonly service: string;
	readonly counts: ConnectionCounts;
}

export function newConnectionCounts(): ConnectionCounts {
	return {
		started: 0,
		ended: 0,
		bytesIn: 0,
		bytesOut: 0,
		ends: new Map(),
		attempts: new Map(),
		connectBuckets: CONNECT_BOUNDS_SECONDS.map(() => 0),
		connectCount: 0,
		connectSeconds: 0,
	};
}

/** Counts one that has ended. */
export function countEnded(
	counts: ConnectionCounts,
	{
		bytesIn,
		bytesOut,
		end,
		attempts,
		connectMs,
	}: Pick<ConnectionRecord, "bytesIn" | "bytesOut" | "end" | "attempts" | "connectMs">,
): void {
	counts.ended += 1;
	counts.bytesIn += bytesIn;
	counts.bytesOut += bytesOut;
	increase(counts.ends, end, 1);
	for (const { outcome } of attempts) increase(counts.attempts, outcome, 1);
	if (connectMs !== undefined) countConnect(counts, connectMs / 1_000);
}

/** Adds what was counted elsewhere. */
export function addCounts(to: ConnectionCounts, more: ConnectionCounts): void {
	to.started += more.started;
	to.ended += more.ended;
	to.bytesIn += more.bytesIn;
	to.bytesOut += more.bytesOut;
	for (const [end, count] of more.ends) increase(to.ends, end, count);
	for (const [outcome, count] of more.attempts) increase(to.attempts, outcome, count);
	for (const [index, count] of more.connectBuckets.entries()) {
		to.connectBuckets[index] = (to.connectBuckets[index] ?? 0) + count;
	}
	to.connectCount += more.connectCount;
	to.connectSeconds += more.connectSeconds;
}

function countConnect(counts: ConnectionCounts, seconds: number): void {
	const bucket = CONNECT_BOUNDS_SECONDS.findIndex((bound) => seconds <= bound);
	if (bucket >= 0) counts.connectBuckets[bucket] = (counts.connectBuckets[bucket] ?? 0) + 1;
	counts.connectCount += 1;
	counts.connectSeconds += seconds;
}

function increase<Name>(counts: Map<Name, number>, name: Name, by: number): void {
	counts.set(name, (counts.get(name) ?? 0) + by);
}
