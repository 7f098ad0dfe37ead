import { setImmediate } from "node:timers/promises";
import { type Clock, systemClock } from "../shared/clock.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { createHttpCrowd, type HttpCrowd } from "./http-crowd.ts";
import { planServiceHealth, type ServiceHealthProblem } from "./plan-service-health.ts";
import type { ServiceHealthCheck } from "./service-health-answer.ts";
import { EVERY_ADDRESS, ServiceHealthPort } from "./service-health-port.ts";

/** Listening sockets: more than the default NodePort range has ports (2,768), on one address. */
const MAX_SOCKETS = 4_096;

/** Connections to all ports together. Each is for one short answer. */
const MAX_CONNECTIONS = 512;

/** Of the descriptors that there are, sockets may take one in so many, and connections as well. */
const SHARE = 8;

/** Soon at first: the port may be a predecessor's that is about to end. */
const RETRY = { initialMs: 1_000, maxMs: 60_000 };

/** Opening a server takes some tenths of a millisecond; after so many, the relay gets its turn. */
const OPENED_PER_TURN = 16;

/** Of those that are left out, so many are named in a log line. */
const MAX_NAMED = 3;

/** Where file descriptors are counted; proxies' DescriptorBudget is one. */
interface DescriptorAccount {
	/** What relayed traffic and these servers may hold together. */
	readonly limit: number;
	/** For descriptors that are open, or as good as. */
	take(count: number): void;
	give(count: number): void;
}

export interface ServiceHealthServersOptions {
	/**
	 * Whether this proxy does its work: `live` of judgeHealth(), and no stop has begun. Not whether the
	 * node is about to go: kube-proxy keeps that out as well. Asked at each answer; must not throw.
	 */
	readonly isHealthy: () => boolean;
	readonly descriptors: DescriptorAccount;
	readonly log: Log;
	readonly clock?: Clock;
	readonly retry?: { readonly initialMs: number; readonly maxMs: number };
}

/**
 * The HTTP servers at which load balancers ask whether this node has endpoints of a Service: one per
 * healthCheckNodePort, for Services of type LoadBalancer with externalTrafficPolicy Local.
 *
 * Bounded: listening sockets by {@link MAX_SOCKETS} and an eighth of the descriptors; connections, over
 * all ports together, by {@link MAX_CONNECTIONS} and another eighth, and each ends with its answer or
 * within the time limits of {@link BoundedHttpServer}. Sockets are counted while they are open, the
 * connections as a whole while any port is, so that the relay does not count on them. What does not
 * fit is in {@link problems} and in the log.
 *
 * To wire it: `descriptors` is the engine's budget. Call {@link reconcile} when the listeners have taken
 * over a plan, and when the node's addresses have changed, with the checks of the older Services first.
 * Call {@link close} where the other HTTP servers are closed, after the drain: until then `isHealthy`
 * says false, and load balancers turn to other nodes while this one finishes. Hand {@link openPorts} and
 * the number of {@link problems} to the metrics' `healthChecks`.
 */
export interface ServiceHealthServers {
	/**
	 * Serves exactly these checks, on exactly these addresses. Returns at once; a port that cannot be
	 * bound is tried again until it can, and takes nothing from the others. Idempotent, and cheap where
	 * only counts have changed. Does nothing once closed.
	 *
	 * @param wanted of two with the same port, the first is served.
	 * @param addresses this node's, as nodePortAddresses chooses; empty: every address.
	 */
	reconcile(wanted: readonly ServiceHealthCheck[], addresses: readonly string[]): void;

	/** What is not served at present, wholly or on some address. */
	problems(): readonly ServiceHealthProblem[];

	/** Ports that answer on some address at least. */
	openPorts(): number;

	/** Resolves within about half a second, with nothing left open. Idempotent. */
	close(): Promise<void>;
}

/** Opens nothing before it is told what to serve. */
export function createServiceHealthServers(
	options: ServiceHealthServersOptions,
): ServiceHealthServers {
	return new NodePortHealthServers(options);
}

class NodePortHealthServers implements ServiceHealthServers {
	readonly #options: ServiceHealthServersOptions;
	readonly #maxSockets: number;
	readonly #maxConnections: number;
	readonly #crowd: HttpCrowd;
	readonly #acceptFailure: RecurringFailure;
	readonly #leftOutFailure: RecurringFailure;
	readonly #ports = new Map<number, ServiceHealthPort>();
	#leftOut: readonly ServiceHealthProblem[] = [];
	#addresses: readonly string[] = [EVERY_ADDRESS];
	#sockets = 0;
	#turns = 0;
	#lastTurn: Promise<unknown> = Promise.resolve();
	#isClosed: boolean = false;

	constructor(options: ServiceHealthServersOptions) {
		const { log, clock = systemClock, descriptors } = options;
		this.#options = options;
		const share = Math.floor(descriptors.limit / SHARE);
		this.#maxSockets = Math.min(MAX_SOCKETS, share);
		this.#maxConnections = Math.min(MAX_CONNECTIONS, share);
		this.#leftOutFailure = new RecurringFailure({
			log,
			clock,
			failing: "health checks of Services are left out",
			recovered: "no health check of a Service is left out any more",
		});
		// Never over, only repeated once a minute while it goes on: nobody tells of a success.
		this.#acceptFailure = new RecurringFailure({
			log,
			clock,
			failing: "cannot accept connections to a Service's health check",
			recovered: "connections to Services' health checks are accepted again",
		});
		this.#crowd = createHttpCrowd({
			name: "service health",
			maxConnections: this.#maxConnections,
			// One load balancer may ask about all Services at once, from one address.
			maxPerClient: Number.POSITIVE_INFINITY,
			log,
		});
	}

	reconcile(wanted: readonly ServiceHealthCheck[], addresses: readonly string[]): void {
		if (this.#isClosed) return;
		this.#setAddresses(addresses);
		const { served, leftOut } = planServiceHealth(wanted, {
			perPort: this.#addresses.length,
			maxSockets: this.#maxSockets,
		});
		for (const [port, server] of this.#ports) {
			if (!served.has(port)) void this.#retire(port, server);
		}
		for (const [port, check] of served) this.#portOf(port, check).serve(check, this.#addresses);
		this.#setLeftOut(leftOut);
	}

	problems(): readonly ServiceHealthProblem[] {
		const failing: ServiceHealthProblem[] = [];
		for (const [port, server] of this.#ports) {
			const { namespace, name } = server.check;
			if (server.problem !== undefined)
				failing.push({ namespace, name, port, error: server.problem });
		}
		return [...failing, ...this.#leftOut];
	}

	openPorts(): number {
		let count = 0;
		for (const server of this.#ports.values()) if (server.isOpen) count += 1;
		return count;
	}

	async close(): Promise<void> {
		this.#isClosed = true;
		this.#leftOut = [];
		await Promise.all([...this.#ports].map(([port, server]) => this.#retire(port, server)));
	}

	/** Keeps the list where it says the same, so that ports can tell at a glance. */
	#setAddresses(addresses: readonly string[]): void {
		const next = new Set(addresses.length === 0 ? [EVERY_ADDRESS] : addresses);
		const isSame =
			next.size === this.#addresses.length && this.#addresses.every((address) => next.has(address));
		if (!isSame) this.#addresses = [...next];
	}

	#portOf(port: number, check: ServiceHealthCheck): ServiceHealthPort {
		const known = this.#ports.get(port);
		if (known !== undefined) return known;
		const { isHealthy, log, clock = systemClock, retry = RETRY } = this.#options;
		const server = new ServiceHealthPort(check, {
			isHealthy,
			crowd: this.#crowd,
			log,
			clock,
			retry,
			turn: () => this.#turn(),
			onSockets: (change) => this.#count(change),
			onError: (error) => this.#acceptFailure.failed(describeError(error), { port }),
		});
		this.#ports.set(port, server);
		return server;
	}

	async #retire(port: number, server: ServiceHealthPort): Promise<void> {
		await server.retire();
		// It may have been wanted again meanwhile.
		if (!server.isWanted) this.#ports.delete(port);
	}

	async #turn(): Promise<void> {
		this.#turns += 1;
		if (this.#turns % OPENED_PER_TURN === 0)
			this.#lastTurn = this.#lastTurn.then(() => setImmediate());
		await this.#lastTurn;
	}

	#count(change: 1 | -1): void {
		const { descriptors } = this.#options;
		const before = this.#sockets;
		this.#sockets += change;
		if (change === 1) descriptors.take(before === 0 ? 1 + this.#maxConnections : 1);
		else descriptors.give(this.#sockets === 0 ? 1 + this.#maxConnections : 1);
	}

	#setLeftOut(leftOut: readonly ServiceHealthProblem[]): void {
		this.#leftOut = leftOut;
		if (leftOut.length === 0) {
			this.#leftOutFailure.succeeded();
			return;
		}
		const named = leftOut
			.slice(0, MAX_NAMED)
			.map(({ namespace, name, error }) => `${namespace}/${name}: ${error}`);
		const more = leftOut.length - named.length;
		const text = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
		this.#leftOutFailure.failed(text, { services: leftOut.length });
	}
}
