import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { FaultLog } from "../fault-log.ts";

/** Nothing of a kind for so long, or up to twice that, and it is said to be over. */
const QUIET_MS = 60_000;

/** Why a datagram was not passed on. */
const DROP_REASONS = [
	/** The ServicePort has no endpoint. */
	"no-endpoint",
	/** No descriptor, port or memory for a new flow, and no other flow to take it from. */
	"no-descriptor",
	/** The kernel takes no more towards the endpoint, or too much waits for that already. */
	"queue-full",
	/** The endpoint answered "nobody listens here", or has no route, and no other is left to try. */
	"refused",
	/** Sending to the endpoint failed otherwise: too long, forbidden by a packet filter. */
	"send-failed",
	/** The kernel takes no more towards the clients. */
	"answer-queue-full",
	/** Sending to the client failed. */
	"answer-failed",
	/** The flow ended while the datagram waited in it. */
	"flow-ended",
	/** It came to a flow's socket and not from the flow's endpoint. */
	"foreign-sender",
	/** Reading from a listener's socket failed; whatever it was is lost. */
	"receive-failed",
	/** Its source is no address and port that could be answered. */
	"bad-source",
] as const;

export type DropReason = (typeof DROP_REASONS)[number];

/** How often, and what is said of it. */
interface Dropped {
	count: number;
	readonly faults: FaultLog;
}

/**
 * Counts what one engine could not pass on, and flows that had to make room for others.
 *
 * Each kind is logged when it begins and when it is over, however many there are. What the kernel
 * drops before we read it, because a socket's buffer is full, is counted by the kernel alone
 * (`drops` in /proc/net/udp).
 */
export class UdpDrops {
	readonly #clock: Clock;
	readonly #dropped: ReadonlyMap<DropReason, Dropped>;
	readonly #evictions: FaultLog;
	#droppedCount = 0;
	#evictedCount = 0;
	#lastMs = Number.NEGATIVE_INFINITY;
	#sweptAtMs: number;

	constructor(log: Log, clock: Clock) {
		this.#clock = clock;
		this.#sweptAtMs = clock.monotonicMs();
		this.#dropped = new Map(
			DROP_REASONS.map((reason) => {
				const began = `datagrams are dropped: ${reason}`;
				const ended = `datagrams are no longer dropped: ${reason}`;
				return [reason, { count: 0, faults: new FaultLog(log, began, ended) }];
			}),
		);
		this.#evictions = new FaultLog(
			log,
			"UDP flows are ended to make room: table or descriptors used up",
			"UDP flows have room again",
		);
	}

	/** Datagrams since the start. */
	get dropped(): number {
		return this.#droppedCount;
	}

	/** Flows since the start. */
	get evicted(): number {
		return this.#evictedCount;
	}

	/** True while the end of something has perhaps not been said: {@link sweep} is wanted. */
	get isRecent(): boolean {
		return this.#clock.monotonicMs() - this.#lastMs < 3 * QUIET_MS;
	}

	/** Datagrams since the start, by reason. */
	byReason(): ReadonlyMap<DropReason, number> {
		return new Map([...this.#dropped].map(([reason, { count }]) => [reason, count]));
	}

	/** @param code of the system's error, where one was the cause. */
	drop(reason: DropReason, service: string, code?: string): void {
		this.#lastMs = this.#clock.monotonicMs();
		this.#droppedCount += 1;
		const dropped = this.#dropped.get(reason);
		if (dropped === undefined) return;
		dropped.count += 1;
		dropped.faults.happened({ service, errorCode: code });
	}

	/** @param service the one whose flow was ended. */
	evict(service: string, udpFlows: number): void {
		this.#lastMs = this.#clock.monotonicMs();
		this.#evictedCount += 1;
		this.#evictions.happened({ service, udpFlows });
	}

	/** To be called while {@link isRecent}, at any rate. */
	sweep(): void {
		const nowMs = this.#clock.monotonicMs();
		if (nowMs - this.#sweptAtMs < QUIET_MS) return;
		this.#sweptAtMs = nowMs;
		for (const { faults } of this.#dropped.values()) faults.sweep();
		this.#evictions.sweep();
	}
}
