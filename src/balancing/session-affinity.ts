import { LRUCache } from "lru-cache";

import type { IpAddress } from "../services/address.ts";

/**
 * Clients that one ServicePort remembers at most; at the limit the one that was not seen for the
 * longest is forgotten. A guess: 65,536 take about 10 MB, and only where so many clients came.
 */
const MAX_CLIENTS = 65_536;

/**
 * Which endpoint each client of one ServicePort is to get (`sessionAffinity: ClientIP`).
 *
 * The timeout slides: each {@link find} and {@link set} starts it anew. It is asked for at each
 * look, so a change holds for clients that are known already.
 */
export class SessionAffinity {
	readonly #now: () => number;
	readonly #clients: LRUCache<IpAddress, Sticky>;
	#evictions = 0;

	/**
	 * @param now monotonic milliseconds.
	 * @param onEviction called with each client that is forgotten because the table is full.
	 */
	constructor(now: () => number, maxClients = MAX_CLIENTS, onEviction = () => {}) {
		this.#now = now;
		this.#clients = new LRUCache({
			// Not `max`, which would allocate room for all of them in every ServicePort at once.
			maxSize: maxClients,
			sizeCalculation: () => 1,
			dispose: (_sticky, _client, reason) => {
				if (reason !== "evict") return;
				this.#evictions += 1;
				onEviction();
			},
		});
	}

	get size(): number {
		return this.#clients.size;
	}

	/** Clients forgotten since the start because the table was full. */
	get evictions(): number {
		return this.#evictions;
	}

	/** The client's endpoint, or undefined when it has none or has not been seen for `timeoutMs`. */
	find(client: IpAddress, timeoutMs: number): Sticky | undefined {
		const sticky = this.#clients.get(client);
		if (sticky === undefined) return undefined;
		if (this.#now() - sticky.seenAtMs >= timeoutMs) {
			this.#clients.delete(client);
			return undefined;
		}
		sticky.seenAtMs = this.#now();
		return sticky;
	}

	set(client: IpAddress, endpointKey: string, standing: Sticky["standing"]): void {
		const answeredBy = standing === "kept" ? endpointKey : this.#clients.peek(client)?.answeredBy;
		this.#clients.set(client, { endpointKey, standing, answeredBy, seenAtMs: this.#now() });
	}
}

export interface Sticky {
	readonly endpointKey: string;
	/**
	 * "kept": it answered this client. Otherwise it has been picked and not answered yet, for a
	 * client that had no endpoint ("assigned") or another one ("moved"): connections that the same
	 * client makes meanwhile go there too, and none is bound to an endpoint that does not answer.
	 */
	readonly standing: "kept" | "assigned" | "moved";
	/** The endpoint that answered this client last: where it belongs as soon as that is well. */
	readonly answeredBy: string | undefined;
	seenAtMs: number;
}
