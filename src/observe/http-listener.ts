import type { RequestListener } from "node:http";
import { formatSocketAddress } from "../services/address.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { BoundedHttpServer } from "./bounded-http-server.ts";
import { createHttpCrowd, type HttpCrowd } from "./http-crowd.ts";

/** kube-proxy's: how long until an address that could not be bound is tried again. */
const BIND_RETRY_MS = 5_000;

export interface HttpAddress {
	readonly address: string;
	/** 0: the kernel chooses. */
	readonly port: number;
}

export interface HttpListenerOptions extends HttpAddress {
	/** For logs: "health", "metrics". */
	readonly name: string;
	readonly handle: RequestListener;
	/** At once, see {@link HttpCrowd}. */
	readonly maxConnections: number;
	/** True: an address that cannot be bound rejects {@link HttpListener.open}. */
	readonly hardFail: boolean;
	readonly log: Log;
	readonly bindRetryMs?: number;
}

/** One HTTP address: bound, or tried again until it is; bounded in connections and in time. */
export class HttpListener {
	readonly #options: HttpListenerOptions;
	readonly #failure: RecurringFailure;
	readonly #crowd: HttpCrowd;
	#server: BoundedHttpServer | undefined;
	#retry: NodeJS.Timeout | undefined;
	#closed: boolean = false;

	constructor(options: HttpListenerOptions) {
		const { name, maxConnections, log } = options;
		this.#options = options;
		this.#failure = new RecurringFailure({
			log,
			level: "error",
			failing: "cannot serve HTTP",
			recovered: "HTTP is served now",
		});
		this.#crowd = createHttpCrowd({ name, maxConnections, log });
	}

	/**
	 * Resolves after the first try to bind, whether it succeeded or will be repeated.
	 *
	 * Rejects with the system's error when `hardFail` is set and the address cannot be bound.
	 */
	async open(): Promise<void> {
		const { name, address, port, hardFail, log } = this.#options;
		const server = this.#createServer();
		this.#server = server;
		try {
			await server.listen();
		} catch (error) {
			this.#server = undefined;
			if (hardFail) {
				const where = formatSocketAddress(address, port);
				throw new Error(`Cannot serve ${name} on ${where}`, { cause: error });
			}
			this.#failed(error);
			return;
		}
		// Closed while it was being bound.
		if (this.#closed) return;
		this.#failure.succeeded({ server: name });
		log.info({ server: name, address: this.boundTo() }, "HTTP server listening");
	}

	/** "127.0.0.1:10249"; undefined while it is not bound. */
	boundTo(): string | undefined {
		return this.#server?.boundTo();
	}

	/** Resolves when nothing of it is open. Answers that are being sent get half a second. Idempotent. */
	async close(): Promise<void> {
		this.#closed = true;
		clearTimeout(this.#retry);
		const server = this.#server;
		this.#server = undefined;
		await server?.close();
	}

	#createServer(): BoundedHttpServer {
		const { name, address, port, handle } = this.#options;
		return new BoundedHttpServer({
			address,
			port,
			handle,
			crowd: this.#crowd,
			onError: (error) => this.#failure.failed(describeError(error), { server: name }),
		});
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
}
