import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { isLoopback } from "./http-guard.ts";

/** Of one address over the network. */
const MAX_PER_CLIENT = 32;

/** On small hosts with few connections in all, one client gets this share of them. */
const SHARE_PER_CLIENT = 4;

/** What is counted: a connection of HTTP. */
export interface CrowdSocket {
	readonly remoteAddress?: string | undefined;
	destroy(): unknown;
	once(event: "close", listener: () => void): unknown;
}

export interface HttpCrowdOptions {
	/** At once, of all clients together. */
	readonly maxConnections: number;
	/** At once, of one address over the network; by default a fourth of all, at most 32. Infinity: no bound. */
	readonly maxPerClient?: number;
	/** Called for each connection that is closed to keep within the bounds. */
	readonly onTooMany: (why: string) => void;
}

/**
 * Who is connected to an HTTP server, or to several that share it, and who has to go when there are
 * too many.
 *
 * A probe must get in however many connections somebody else holds open: when all are taken, the
 * oldest of whoever has most makes room. All of loopback counts as one client, which may have all
 * of them; a client over the network is refused at its own bound.
 */
export class HttpCrowd {
	readonly #options: HttpCrowdOptions;
	readonly #maxPerClient: number;
	/** Of each client, the oldest first. */
	readonly #clients = new Map<string, Set<CrowdSocket>>();
	#count = 0;

	constructor(options: HttpCrowdOptions) {
		const { maxConnections, maxPerClient } = options;
		this.#options = options;
		this.#maxPerClient =
			maxPerClient ?? Math.min(MAX_PER_CLIENT, Math.ceil(maxConnections / SHARE_PER_CLIENT));
	}

	/** Counts the connection until it closes; closes it, or another one, when there are too many. */
	admit(socket: CrowdSocket): void {
		const { maxConnections, onTooMany } = this.#options;
		const address = socket.remoteAddress ?? "";
		const client = isLoopback(address) ? "loopback" : address;
		const held = this.#clients.get(client)?.size ?? 0;
		if (client !== "loopback" && held >= this.#maxPerClient) {
			onTooMany(`more than ${this.#maxPerClient} of one client at a time`);
			socket.destroy();
			return;
		}
		if (this.#count >= maxConnections) {
			onTooMany(`more than ${maxConnections} at a time`);
			this.#makeRoom();
		}
		this.#add(client, socket);
		socket.once("close", () => this.#remove(client, socket));
	}

	#makeRoom(): void {
		let greediest: readonly [string, ReadonlySet<CrowdSocket>] | undefined;
		for (const entry of this.#clients) {
			if (entry[1].size > (greediest?.[1].size ?? 0)) greediest = entry;
		}
		const [client, sockets] = greediest ?? ["", new Set<CrowdSocket>()];
		for (const oldest of sockets) {
			// Its close event comes later; its descriptor is free at once.
			this.#remove(client, oldest);
			oldest.destroy();
			return;
		}
	}

	#add(client: string, socket: CrowdSocket): void {
		const sockets = this.#clients.get(client) ?? new Set();
		sockets.add(socket);
		this.#clients.set(client, sockets);
		this.#count += 1;
	}

	#remove(client: string, socket: CrowdSocket): void {
		const sockets = this.#clients.get(client);
		if (sockets?.delete(socket) !== true) return;
		this.#count -= 1;
		if (sockets.size === 0) this.#clients.delete(client);
	}
}

/** A crowd that tells the log when there are too many. */
export function createHttpCrowd({
	name,
	log,
	...bounds
}: Omit<HttpCrowdOptions, "onTooMany"> & {
	/** For logs: which server's it is. */
	readonly name: string;
	readonly log: Log;
}): HttpCrowd {
	// Never over, only repeated once a minute while it goes on: nobody knows when a crowd has left.
	const failure = new RecurringFailure({
		log,
		failing: "HTTP connections are closed to bound their number",
		recovered: "HTTP connections are let in again",
	});
	return new HttpCrowd({
		...bounds,
		onTooMany: (why) => failure.failed(why, { server: name }),
	});
}
