import { DROP_REASONS, type DropReason } from "../drop-reason.ts";
import type { UdpFault } from "../udp-faults.ts";

/** Counts what could not be passed on, and flows that had to make room for others. */
export class UdpDrops {
	readonly #onFault: (fault: UdpFault) => void;
	readonly #dropped = new Map<DropReason, number>(DROP_REASONS.map((reason) => [reason, 0]));
	#droppedCount = 0;
	#evictedCount = 0;

	/** @param onFault is told of each. */
	constructor(onFault: (fault: UdpFault) => void) {
		this.#onFault = onFault;
	}

	/** Datagrams since the start. */
	get dropped(): number {
		return this.#droppedCount;
	}

	/** Flows since the start. */
	get evicted(): number {
		return this.#evictedCount;
	}

	/** Datagrams since the start, by reason. */
	byReason(): ReadonlyMap<DropReason, number> {
		return new Map(this.#dropped);
	}

	/** @param code of the system's error, where one was the cause. */
	drop(reason: DropReason, service: string, code?: string): void {
		this.#droppedCount += 1;
		this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
		this.#onFault({ kind: reason, count: 1, service, errorCode: code });
	}

	/** @param service the one whose flow was ended. */
	evict(service: string): void {
		this.#evictedCount += 1;
		this.#onFault({ kind: "evicted", count: 1, service });
	}
}
