import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { formatSocketAddress } from "../services/address.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { isLoopback } from "./http-guard.ts";

/** kube-proxy's: how long until an address that could not be bound is tried again. */
const BIND_RETRY_MS = 5_000;

/** Enough for probes, scrapes and people; few enough to leave descriptors to the relay. */
const MAX_CONNECTIONS = 128;

/** One client must not keep the probes of all others out. Loopback is trusted with the whole. */
const MAX_CONNECTIONS_PER_CLIENT = 32;

/** How long answers that are being sent may take when the server closes. */
const CLOSE_GRACE_MS = 500;

const LIMITS = {
	maxHeaderSize: 8 * 1024,
	headersTimeout: 5_000,
	requestTimeout: 5_000,
	keepAliveTimeout: 5_000,
	connectionsCheckingInterval: 1_000,
} as const;

export interface HttpAddress {
	readonly address: string;
	/** 0: the kernel chooses. */
	readonly port: number;
}

export interface HttpListenerOptions extends HttpAddress {
	/** For logs: "health", "metrics". */
	readonly name: string;
	readonly handle: RequestListener;
	/** True: an address that cannot be bound rejects {@link HttpListener.open}. */
	readonly hardFail: boolean;
	readonly log: Log;
	readonly bindRetryMs?: number;
}

/** One HTTP address: bound, or tried again until it is; bounded in connections and in time. */
export class HttpListener {
	readonly #options: HttpListenerOptions;
	readonly #failure: RecurringFailure;
	readonly #crowd: RecurringFailure;
	readonly #perClient = new Map<string, number>();
	#server: Server | undefined;
	#retry: NodeJS.Timeout | undefined;
	#closed: boolean = false;

	constructor(options: HttpListenerOptions) {
		this.#options = options;
		this.#failure = new RecurringFailure({
			log: options.log,
			level: "error",
			failing: "cannot serve HTTP",
			recovered: "HTTP is served now",
		});
		// Never over, only repeated once a minute while it goes on: nobody knows when a crowd has left.
		this.#crowd = new RecurringFailure({
			log: options.log,
			failing: "HTTP connections are refused",
			recovered: "HTTP connections are let in again",
		});
	}

	/**
	 * Resolves after the first try to bind, whether it succeeded or will be repeated.
	 *
	 * Rejects with the system's error when `hardFail` is set and the address cannot be bound.
	 */
	async open(): Promise<void> {
		const { name, address, port, hardFail, log } = this.#options;
		try {
			this.#server = await this.#listen();
		} catch (error) {
			if (hardFail) {
				const where = formatSocketAddress(address, port);
				throw new Error(`Cannot serve ${name} on ${where}`, { cause: error });
			}
			this.#failed(error);
			return;
		}
		this.#failure.succeeded({ server: name });
		log.info({ server: name, address: this.boundTo() }, "HTTP server listening");
	}

	/** "127.0.0.1:10249"; undefined while it is not bound. */
	boundTo(): string | undefined {
		const bound = this.#server?.address();
		// A string would be the path of a UNIX socket.
		if (bound === undefined || bound === null || typeof bound === "string") return undefined;
		return formatSocketAddress(bound.address, bound.port);
	}

	/** Resolves when nothing of it is open. Answers that are being sent get half a second. Idempotent. */
	async close(): Promise<void> {
		this.#closed = true;
		clearTimeout(this.#retry);
		const server = this.#server;
		if (server === undefined) return;
		this.#server = undefined;
		const { promise, resolve } = Promise.withResolvers<void>();
		server.close(() => resolve());
		const timer = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
		await promise;
		clearTimeout(timer);
	}

	async #listen(): Promise<Server> {
		const { address, port, handle } = this.#options;
		const server = createServer(LIMITS, handle);
		const { promise, resolve, reject } = Promise.withResolvers<Server>();
		let isListening = false;
		server.on("error", (error) => {
			if (isListening) this.#failure.failed(describeError(error), { server: this.#options.name });
			else reject(error);
		});
		server.maxConnections = MAX_CONNECTIONS;
		server.on("drop", () => this.#refused(`more than ${MAX_CONNECTIONS} at a time`));
		server.on("connection", (socket) => this.#admit(socket));
		server.listen({ host: address, port }, () => {
			isListening = true;
			resolve(server);
		});
		const listening = await promise;
		// Closed while it was being bound.
		if (this.#closed) listening.close();
		return listening;
	}

	#failed(error: unknown): void {
		if (this.#closed) return;
		const { name, address, port, bindRetryMs = BIND_RETRY_MS } = this.#options;
		this.#failure.failed(describeError(error), {
			server: name,
			address: formatSocketAddress(address, port),
		});
		// open() cannot reject here: hardFail was false, or we would not be here.
		this.#retry = setTimeout(() => void this.open(), bindRetryMs).unref();
	}

	#admit(socket: IncomingMessage["socket"]): void {
		const client = socket.remoteAddress ?? "";
		if (isLoopback(client)) return;
		const count = (this.#perClient.get(client) ?? 0) + 1;
		if (count > MAX_CONNECTIONS_PER_CLIENT) {
			this.#refused(`more than ${MAX_CONNECTIONS_PER_CLIENT} of one client at a time`);
			socket.destroy();
			return;
		}
		this.#perClient.set(client, count);
		socket.once("close", () => {
			const left = (this.#perClient.get(client) ?? 1) - 1;
			if (left > 0) this.#perClient.set(client, left);
			else this.#perClient.delete(client);
		});
	}

	#refused(why: string): void {
		this.#crowd.failed(why, { server: this.#options.name });
	}
}
