import { TRAFFIC_KINDS, type TrafficKind } from "./services.ts";
import { type Account, exactly, NO_ACCOUNT, sumOf } from "./verdict.ts";

/** A connection or datagram that did not end as it should have. */
export interface Failure {
	/** Milliseconds since the epoch. */
	readonly startedAtMs: number;
	readonly what: string;
}

export interface DatedFailure extends Failure {
	readonly kind: TrafficKind;
	readonly endedAtMs: number;
}

export interface TrafficReport {
	readonly accounts: Readonly<Record<TrafficKind, Account>>;
	/** May be due to a worker that died at that time. */
	readonly failures: readonly DatedFailure[];
	/** Wrong, whenever it was. */
	readonly faults: readonly string[];
}

/** Enough to see what is wrong. */
const MAX_KEPT = 1000;

/** What the clients of a soak write down. */
export class TrafficBooks {
	readonly #accounts = new Map<TrafficKind, Account>();
	readonly #failures: DatedFailure[] = [];
	readonly #faults: string[] = [];

	/** A connection that ended in order. */
	whole(kind: TrafficKind, bytesIn: number, bytesOut: number): void {
		this.#add(kind, {
			connections: exactly(1),
			bytesIn: exactly(bytesIn),
			bytesOut: exactly(bytesOut),
		});
	}

	/**
	 * One that was cut on purpose. What an echo has sent back had arrived. Of a client that is gone before
	 * it is accepted nobody need ever know.
	 */
	cut(kind: "cuts" | "resets", received: number, offered: number): void {
		const bytes = { least: received, most: offered };
		const isSurelySeen = kind === "resets" || received > 0;
		const connections = { least: isSurelySeen ? 1 : 0, most: 1 };
		this.#add(kind, { connections, bytesIn: bytes, bytesOut: bytes });
	}

	/** One that should have ended in order. */
	failed(kind: TrafficKind, failure: Failure, offered: number): void {
		this.#add(kind, upTo(offered));
		this.#fail(kind, failure);
	}

	/** One that was sent and answered. It may have opened a flow. */
	datagram(bytes: number): void {
		this.#add("datagrams", {
			connections: { least: 0, most: 1 },
			bytesIn: exactly(bytes),
			bytesOut: exactly(bytes),
		});
	}

	failedDatagram(failure: Failure, bytes: number): void {
		this.#add("datagrams", upTo(bytes));
		this.#fail("datagrams", failure);
	}

	fault(what: string): void {
		if (this.#faults.length < MAX_KEPT) this.#faults.push(what);
	}

	report(): TrafficReport {
		const accounts = TRAFFIC_KINDS.map((kind) => [kind, this.#accounts.get(kind) ?? NO_ACCOUNT]);
		return {
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each kind is there
			accounts: Object.fromEntries(accounts) as TrafficReport["accounts"],
			failures: this.#failures,
			faults: this.#faults,
		};
	}

	#add(kind: TrafficKind, account: Account): void {
		this.#accounts.set(kind, sumOf(this.#accounts.get(kind) ?? NO_ACCOUNT, account));
	}

	#fail(kind: TrafficKind, failure: Failure): void {
		if (this.#failures.length >= MAX_KEPT) return;
		this.#failures.push({ ...failure, kind, endedAtMs: Date.now() });
	}
}

/** Of one of which nothing is known, echoed as it was to be. */
function upTo(offered: number): Account {
	const bytes = { least: 0, most: offered };
	return { connections: { least: 0, most: 1 }, bytesIn: bytes, bytesOut: bytes };
}
