import type { RequestListener } from "node:http";
import { Backoff } from "../shared/backoff.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { BoundedHttpServer } from "./bounded-http-server.ts";
import type { HttpCrowd } from "./http-crowd.ts";
import { type ServiceHealthCheck, serviceHealthAnswer } from "./service-health-answer.ts";

/** In place of an address: all that this host has, of both families. */
export const EVERY_ADDRESS = "*";

/** Of a port that fails on many addresses, so many are told of; the others have the same cause. */
const MAX_ERRORS_TOLD = 3;

export interface ServiceHealthPortOptions {
	readonly isHealthy: () => boolean;
	/** Who is connected, to all ports together. */
	readonly crowd: HttpCrowd;
	readonly log: Log;
	readonly clock: Clock;
	/** The waits before an address that could not be bound is tried again. */
	readonly retry: { readonly initialMs: number; readonly maxMs: number };
	/** Resolves when one more server may be opened: there may be very many at once. */
	turn(): Promise<void>;
	/** Told of each listening socket that was opened (1) or closed (-1). */
	onSockets(change: 1 | -1): void;
	/** Told of what goes wrong with a listening socket that is open. */
	onError(error: Error): void;
}

/**
 * One healthCheckNodePort: a listening socket per address, all with the same answer.
 *
 * Changes of addresses are carried out one after the other, the latest wins; a socket whose address
 * stays is not touched. An address that cannot be bound is tried again and keeps no other one back.
 */
export class ServiceHealthPort {
	readonly #options: ServiceHealthPortOptions;
	readonly #failure: RecurringFailure;
	readonly #backoff: Backoff;
	readonly #sockets = new Map<string, BoundedHttpServer>();
	/** Why an address is not bound. */
	readonly #errors = new Map<string, string>();
	readonly #closing = new Set<Promise<void>>();
	#check: ServiceHealthCheck;
	#addresses: readonly string[] = [];
	#isBehind: boolean = false;
	#converging: Promise<void> | undefined;
	#retry: NodeJS.Timeout | undefined;

	constructor(check: ServiceHealthCheck, options: ServiceHealthPortOptions) {
		this.#check = check;
		this.#options = options;
		this.#backoff = new Backoff({ ...options.retry, factor: 2, jitter: 0.1 });
		this.#failure = new RecurringFailure({
			log: options.log,
			clock: options.clock,
			failing: "cannot serve a Service's health check",
			recovered: "the Service's health check is served now",
		});
	}

	get check(): ServiceHealthCheck {
		return this.#check;
	}

	/** True while it is to be served. */
	get isWanted(): boolean {
		return this.#addresses.length > 0;
	}

	/** True while some address answers. */
	get isOpen(): boolean {
		return this.#sockets.size > 0;
	}

	/** Why it is not served on some address; undefined when all is well. */
	get problem(): string | undefined {
		// In the order of the addresses: the same failure must have the same text each time.
		const errors = this.#addresses
			.map((address) => this.#errors.get(address))
			.filter((error) => error !== undefined);
		if (errors.length === 0) return undefined;
		const told = errors.slice(0, MAX_ERRORS_TOLD).join("; ");
		const more = errors.length - MAX_ERRORS_TOLD;
		return more > 0 ? `${told}; and on ${more} more addresses` : told;
	}

	/**
	 * Answers for this check from now on, on these addresses. Cheap where nothing has changed.
	 *
	 * @param addresses the very same list as before where they are the same.
	 */
	serve(check: ServiceHealthCheck, addresses: readonly string[]): void {
		this.#check = check;
		if (addresses === this.#addresses) return;
		this.#addresses = addresses;
		void this.#converge();
	}

	/** Closes the port; {@link serve} may open it again at any time. Resolves when nothing is open. */
	async retire(): Promise<void> {
		this.#addresses = [];
		await this.#converge();
		await Promise.all(this.#closing);
	}

	#converge(): Promise<void> {
		this.#isBehind = true;
		this.#converging ??= this.#run();
		return this.#converging;
	}

	async #run(): Promise<void> {
		clearTimeout(this.#retry);
		while (this.#isBehind) {
			this.#isBehind = false;
			this.#closeUnwanted();
			// In turn: a round that begins before the last one is over would bind the same address twice.
			// oxlint-disable-next-line no-await-in-loop
			await this.#openMissing();
		}
		// Nothing is awaited from here on: who calls now begins a new run.
		this.#converging = undefined;
		if (this.isWanted) this.#tellOutcome();
	}

	#closeUnwanted(): void {
		const wanted = new Set(this.#addresses);
		for (const address of this.#errors.keys()) {
			if (!wanted.has(address)) this.#errors.delete(address);
		}
		for (const [address, server] of this.#sockets) {
			if (wanted.has(address)) continue;
			this.#sockets.delete(address);
			this.#options.onSockets(-1);
			const closing: Promise<void> = server.close().finally(() => this.#closing.delete(closing));
			this.#closing.add(closing);
		}
	}

	async #openMissing(): Promise<void> {
		const missing = this.#addresses.filter((address) => !this.#sockets.has(address));
		await Promise.all(missing.map((address) => this.#open(address)));
	}

	async #open(address: string): Promise<void> {
		const { crowd } = this.#options;
		await this.#options.turn();
		// The port may have been moved meanwhile, or given up.
		if (!this.#addresses.includes(address)) return;
		const server = new BoundedHttpServer({
			address: address === EVERY_ADDRESS ? undefined : address,
			port: this.#check.port,
			handle: this.#handle,
			crowd,
			onError: (error) => this.#options.onError(error),
		});
		try {
			await server.listen();
		} catch (error) {
			this.#errors.set(address, describeError(error));
			return;
		}
		this.#errors.delete(address);
		this.#sockets.set(address, server);
		this.#options.onSockets(1);
	}

	#tellOutcome(): void {
		const { namespace, name, port } = this.#check;
		const fields = { object: `Service ${namespace}/${name}`, port };
		const { problem } = this;
		if (problem === undefined) {
			this.#backoff.reset();
			this.#failure.succeeded(fields);
			return;
		}
		this.#failure.failed(problem, fields);
		this.#retry = setTimeout(() => void this.#converge(), this.#backoff.next()).unref();
	}

	/** Whatever the method, path and Host: load balancers differ in what they ask for. */
	readonly #handle: RequestListener = (_request, response) => {
		// A client that goes away while it is answered is nobody's fault.
		response.on("error", () => {});
		const answer = serviceHealthAnswer(this.#check, this.#options.isHealthy());
		response.writeHead(answer.status, answer.headers).end(answer.body);
	};
}
