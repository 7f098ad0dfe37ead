import type { SessionAffinity as WantedAffinity } from "../services/objects.ts";
import { SessionAffinity } from "./session-affinity.ts";

export interface SharedAffinityOptions {
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Called whenever a client is forgotten because the table is full. */
	readonly onEviction?: (() => void) | undefined;
	/** Clients that are remembered at most. */
	readonly maxClients?: number | undefined;
}

/**
 * The session affinity of one port of a Service: switched on and off as the Service says, and one for
 * all balancers of that port, so that a client stays with its endpoint by whichever address it comes.
 */
export class SharedAffinity {
	readonly #options: SharedAffinityOptions;
	#table: SessionAffinity | undefined;
	#timeoutMs = 0;
	#formerEvictions = 0;

	constructor(options: SharedAffinityOptions) {
		this.#options = options;
	}

	/** Undefined where the Service has no affinity. */
	get table(): SessionAffinity | undefined {
		return this.#table;
	}

	/** As the Service has it now: it holds for clients that are known already. */
	get timeoutMs(): number {
		return this.#timeoutMs;
	}

	/** Clients forgotten since the start because the table was full. */
	get evictions(): number {
		return this.#formerEvictions + (this.#table?.evictions ?? 0);
	}

	/** Each of the balancers says the same: their ServicePorts are of one Service. */
	update(wanted: WantedAffinity): void {
		if (wanted.type === "ClientIP") {
			this.#timeoutMs = wanted.timeoutMs;
			const { now, maxClients, onEviction } = this.#options;
			this.#table ??= new SessionAffinity(now, maxClients, onEviction);
		} else if (this.#table !== undefined) {
			this.#formerEvictions += this.#table.evictions;
			this.#table = undefined;
		}
	}
}
