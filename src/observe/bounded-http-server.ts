import { createServer, type RequestListener, type Server } from "node:http";
import { formatSocketAddress } from "../services/address.ts";
import type { HttpCrowd } from "./http-crowd.ts";

/** How long answers that are being sent may take when the server closes. */
const CLOSE_GRACE_MS = 500;

const LIMITS = {
	maxHeaderSize: 8 * 1024,
	headersTimeout: 5_000,
	requestTimeout: 5_000,
	keepAliveTimeout: 5_000,
	connectionsCheckingInterval: 1_000,
} as const;

export interface BoundedHttpServerOptions {
	/** Undefined: every address of this host, of both families where it has both. */
	readonly address: string | undefined;
	/** 0: the kernel chooses. */
	readonly port: number;
	readonly handle: RequestListener;
	/** Bounds the connections, those of other servers that have the same one included. */
	readonly crowd: HttpCrowd;
	/** Told of what goes wrong with the listening socket after it was opened. */
	onError(error: Error): void;
}

/** One listening socket that speaks HTTP, bounded in connections and in time. */
export class BoundedHttpServer {
	readonly #options: BoundedHttpServerOptions;
	readonly #server: Server;
	#opening: Promise<void> | undefined;
	#isListening: boolean = false;
	#closing: Promise<void> | undefined;

	constructor(options: BoundedHttpServerOptions) {
		this.#options = options;
		this.#server = createServer(LIMITS, options.handle);
		this.#server.on("connection", (socket) => options.crowd.admit(socket));
	}

	/** Rejects with the system's error, its `code` intact; nothing is open then. */
	listen(): Promise<void> {
		this.#opening ??= this.#listen();
		return this.#opening;
	}

	/** "127.0.0.1:10249"; undefined while it is not bound. */
	boundTo(): string | undefined {
		const bound = this.#server.address();
		// A string would be the path of a UNIX socket.
		if (bound === null || typeof bound === "string") return undefined;
		return formatSocketAddress(bound.address, bound.port);
	}

	/**
	 * Resolves when nothing of it is open. Answers that are being sent get half a second. Idempotent.
	 *
	 * Where {@link listen} has resolved, the port is free when this returns.
	 */
	close(): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	async #listen(): Promise<void> {
		const { address, port } = this.#options;
		const { promise, resolve, reject } = Promise.withResolvers<void>();
		this.#server.once("error", reject);
		const where = address === undefined ? { port } : { host: address, port };
		this.#server.listen(where, () => {
			this.#server.off("error", reject).on("error", (error) => this.#options.onError(error));
			this.#isListening = true;
			resolve();
		});
		await promise;
	}

	async #close(): Promise<void> {
		// A server that is closed while it is being bound is bound all the same, and never says so.
		if (!this.#isListening) await this.#opening?.catch(() => {});
		if (!this.#isListening) return;
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#server.close(() => resolve());
		const timer = setTimeout(() => this.#server.closeAllConnections(), CLOSE_GRACE_MS);
		await promise;
		clearTimeout(timer);
	}
}
