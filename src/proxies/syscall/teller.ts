import {
	type ConnectionCounts,
	countEnded,
	newConnectionCounts,
	type ServiceCounts,
} from "../../services/connection-counts.ts";
import {
	type ConnectionInterest,
	type ConnectionRecord,
	isTroubled,
} from "../../services/connection-record.ts";
import type { Protocol } from "../../services/service-port.ts";
import type { UdpFault } from "../udp-faults.ts";
import type { ConnectionEvent, FromWorker } from "./messages.ts";

/** What is told one by one is told in batches, this long after the first of one at the latest. */
const TELL_AFTER_MS = 10;
const TELL_AT_EVENTS = 256;

/** What is only counted has time: whoever asks is told before the answer. */
const TELL_COUNTS_AFTER_MS = 1_000;

/** Records that nobody was told of, and that one can look back on. */
const KEPT = 1_000;

/**
 * What a worker says of its connections and flows: one by one those that somebody wants to hear of, of all
 * others how many there were.
 */
export class Teller {
	interest: ConnectionInterest;
	readonly #say: (message: FromWorker) => void;
	#events: ConnectionEvent[] = [];
	#eventsSinceMs = 0;
	/** Where among the events is that of a kind. */
	readonly #udpFaultAt = new Map<UdpFault["kind"], number>();
	#counted: Record<Protocol, Map<string, ConnectionCounts>> = nothingCounted();
	#countedSinceMs: number | undefined;
	readonly #recent: ConnectionRecord[] = [];
	#nextRecent = 0;

	constructor(interest: ConnectionInterest, say: (message: FromWorker) => void) {
		this.interest = interest;
		this.#say = say;
	}

	/** To be told soon, whoever wants to hear it. */
	happened(event: ConnectionEvent, nowMs: number): void {
		if (this.#events.length === 0) this.#eventsSinceMs = nowMs;
		this.#events.push(event);
	}

	/**
	 * Datagrams were dropped or flows had to go: of those of one kind, of which there may be a million a second,
	 * one event is told.
	 */
	udpFault(fault: UdpFault, nowMs: number): void {
		const index = this.#udpFaultAt.get(fault.kind);
		const before = this.#events[index ?? -1];
		if (index !== undefined && typeof before === "object" && "udpFault" in before) {
			this.#events[index] = { udpFault: { ...fault, count: before.udpFault.count + fault.count } };
		} else {
			this.#udpFaultAt.set(fault.kind, this.#events.length);
			this.happened({ udpFault: fault }, nowMs);
		}
	}

	/** One has begun, and nobody wants to hear which. */
	countStart(protocol: Protocol, service: string, nowMs: number): void {
		this.#countsOf(protocol, service, nowMs).started += 1;
	}

	ended(record: ConnectionRecord, nowMs: number): void {
		const { ends } = this.interest;
		if (ends === "all" || (ends === "troubled" && isTroubled(record))) {
			this.happened({ record }, nowMs);
			return;
		}
		countEnded(this.#countsOf(record.protocol, record.service, nowMs), record);
		this.#recent[this.#nextRecent] = record;
		this.#nextRecent = (this.#nextRecent + 1) % KEPT;
	}

	/** In no order. */
	recent(): readonly ConnectionRecord[] {
		return this.#recent;
	}

	/** Until {@link tellDue} has something to tell; Infinity while there is nothing. */
	dueInMs(nowMs: number): number {
		if (this.#events.length > 0) return this.#eventsSinceMs + TELL_AFTER_MS - nowMs;
		if (this.#countedSinceMs === undefined) return Number.POSITIVE_INFINITY;
		return this.#countedSinceMs + TELL_COUNTS_AFTER_MS - nowMs;
	}

	tellDue(nowMs: number): void {
		if (this.#events.length >= TELL_AT_EVENTS || this.dueInMs(nowMs) <= 0) this.tellNow();
	}

	tellNow(): void {
		if (this.#events.length === 0 && this.#countedSinceMs === undefined) return;
		this.#say({ kind: "happened", counts: this.#takeCounts(), events: this.#events });
		this.#events = [];
		this.#udpFaultAt.clear();
	}

	#countsOf(protocol: Protocol, service: string, nowMs: number): ConnectionCounts {
		this.#countedSinceMs ??= nowMs;
		let counts = this.#counted[protocol].get(service);
		if (counts === undefined) {
			counts = newConnectionCounts();
			this.#counted[protocol].set(service, counts);
		}
		return counts;
	}

	#takeCounts(): readonly ServiceCounts[] {
		if (this.#countedSinceMs === undefined) return [];
		const { tcp, udp } = this.#counted;
		this.#counted = nothingCounted();
		this.#countedSinceMs = undefined;
		return [...listOf("tcp", tcp), ...listOf("udp", udp)];
	}
}

function nothingCounted(): Record<Protocol, Map<string, ConnectionCounts>> {
	return { tcp: new Map(), udp: new Map() };
}

function listOf(
	protocol: Protocol,
	counted: ReadonlyMap<string, ConnectionCounts>,
): readonly ServiceCounts[] {
	return [...counted].map(([service, counts]) => ({ protocol, service, counts }));
}
