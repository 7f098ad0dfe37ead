import { formatSocketAddress } from "../services/address.ts";
import type { ConnectionRecord, ConnectionStart } from "../services/connection-record.ts";
import type { ConnectionEvent } from "../services/status.ts";
import { type Clock, systemClock } from "../shared/clock.ts";

/** Records that one can look back on: about 1 MB. */
const KEPT = 1_000;

/** Watchers at a time; each costs a function call per connection. */
const MAX_WATCHERS = 16;

export type ConnectionWatcher = (event: ConnectionEvent) => void;

/** The last connections and flows that have ended, and who watches for what begins and ends. */
export class ConnectionFeed {
	readonly #kept: number;
	readonly #clock: Clock;
	readonly #ring: ConnectionRecord[] = [];
	#next = 0;
	readonly #onWatchers: () => void;
	readonly #watchers = new Set<{ readonly tell: ConnectionWatcher }>();

	/** @param options.onWatchers called when somebody begins or ends to watch. */
	constructor(
		options: {
			readonly kept?: number;
			readonly clock?: Clock;
			readonly onWatchers?: () => void;
		} = {},
	) {
		this.#onWatchers = options.onWatchers ?? (() => {});
		this.#kept = options.kept ?? KEPT;
		this.#clock = options.clock ?? systemClock;
	}

	started({ id, protocol, service, clientAddress, clientPort }: ConnectionStart): void {
		if (this.#watchers.size === 0) return;
		const atMs = this.#clock.wallMs();
		const client = formatSocketAddress(clientAddress, clientPort);
		this.#tell({ event: "started", atMs, id, protocol, service, client });
	}

	ended(record: ConnectionRecord): void {
		this.#ring[this.#next] = record;
		this.#next = (this.#next + 1) % this.#kept;
		if (this.#watchers.size > 0) this.#tell({ event: "ended", record });
	}

	get hasWatchers(): boolean {
		return this.#watchers.size > 0;
	}

	/**
	 * Oldest first.
	 *
	 * @param others records that were not told here.
	 */
	recent(others: readonly ConnectionRecord[] = []): ConnectionRecord[] {
		const all = [...this.#told(), ...others];
		if (others.length > 0) all.sort((a, b) => endOf(a) - endOf(b));
		return all.slice(-this.#kept);
	}

	#told(): ConnectionRecord[] {
		return this.#ring.length < this.#kept
			? [...this.#ring]
			: [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
	}

	/**
	 * @param tell must not throw, nor take long.
	 * @returns the function that ends it, or undefined when there are too many watchers.
	 */
	watch(tell: ConnectionWatcher): (() => void) | undefined {
		if (this.#watchers.size >= MAX_WATCHERS) return undefined;
		const watcher = { tell };
		this.#watchers.add(watcher);
		this.#onWatchers();
		return () => {
			if (this.#watchers.delete(watcher)) this.#onWatchers();
		};
	}

	#tell(event: ConnectionEvent): void {
		for (const { tell } of this.#watchers) tell(event);
	}
}

function endOf({ startedAtMs, durationMs }: ConnectionRecord): number {
	return startedAtMs + durationMs;
}
