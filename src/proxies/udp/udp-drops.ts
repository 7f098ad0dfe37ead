import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { RecurringFailure } from "../../shared/recurring.ts";
import { DROP_REASONS, type DropReason } from "../drop-reason.ts";

/** Nothing of a kind for so long, or up to twice that, and it is said to be over. */
const QUIET_MS = 60_000;

/** How often, and what is said of it. */
interface Dropped {
	count: number;
	readonly faults: RecurringFailure;
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
	readonly #evictions: RecurringFailure;
	#droppedCount = 0;
	#evictedCount = 0;
	#lastMs = Number.NEGATIVE_INFINITY;
	#sweptAtMs: number;

	constructor(log: Log, clock: Clock) {
		this.#clock = clock;
		this.#sweptAtMs = clock.monotonicMs();
		this.#dropped = new Map(
			DROP_REASONS.map((reason) => {
				const failing = `datagrams are dropped: ${reason}`;
				const recovered = `datagrams are no longer dropped: ${reason}`;
				const faults = new RecurringFailure({ log, clock, failing, recovered });
				return [reason, { count: 0, faults }];
			}),
		);
		this.#evictions = new RecurringFailure({
			log,
			clock,
			failing: "UDP flows are ended to make room",
			recovered: "UDP flows have room again",
		});
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
		dropped.faults.failed(reason, { service, errorCode: code });
	}

	/** @param service the one whose flow was ended. */
	evict(service: string, udpFlows: number): void {
		this.#lastMs = this.#clock.monotonicMs();
		this.#evictedCount += 1;
		this.#evictions.failed("table or descriptors used up", { service, udpFlows });
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
