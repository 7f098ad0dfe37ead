import type { Clock } from "../shared/clock.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure, sweepNowAndThen } from "../shared/recurring.ts";
import { DROP_REASONS, type DropReason } from "./drop-reason.ts";

/** What went wrong with datagrams and flows, of one kind. */
export interface UdpFault {
	/** Why datagrams were dropped; `evicted`: flows were ended to make room for others. */
	readonly kind: DropReason | "evicted";
	/** How many: `service` and `errorCode` are those of the last. */
	readonly count: number;
	readonly service: string;
	/** The system's, where an error was the cause. */
	readonly errorCode?: string | undefined;
}

/**
 * Logs each kind of fault of one engine when it begins and when it is over, however many there are.
 *
 * What the kernel drops before we read it, because a socket's buffer is full, is counted by the kernel
 * alone (`drops` in /proc/net/udp).
 */
export class UdpFaults {
	readonly #flows: () => number;
	readonly #drops: ReadonlyMap<UdpFault["kind"], RecurringFailure>;
	readonly #evictions: RecurringFailure;
	readonly #stopSweeping: () => void;

	/** @param flows how many live now. */
	constructor(log: Log, clock: Clock, flows: () => number) {
		this.#flows = flows;
		this.#drops = new Map(
			DROP_REASONS.map((reason) => {
				const failing = `datagrams are dropped: ${reason}`;
				const recovered = `datagrams are no longer dropped: ${reason}`;
				return [reason, new RecurringFailure({ log, clock, failing, recovered })];
			}),
		);
		this.#evictions = new RecurringFailure({
			log,
			clock,
			failing: "UDP flows are ended to make room",
			recovered: "UDP flows have room again",
		});
		this.#stopSweeping = sweepNowAndThen([...this.#drops.values(), this.#evictions]);
	}

	happened({ kind, count, service, errorCode }: UdpFault): void {
		if (kind === "evicted") {
			const fields = { service, udpFlows: this.#flows() };
			this.#evictions.failed("table or descriptors used up", fields, count);
		} else {
			this.#drops.get(kind)?.failed(kind, { service, errorCode }, count);
		}
	}

	close(): void {
		this.#stopSweeping();
	}
}
