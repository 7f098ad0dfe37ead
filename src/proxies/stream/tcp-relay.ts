import type { ConnectionRecord } from "../../services/connection-record.ts";
import type { ServicePort } from "../../services/service-port.ts";
import { describeError } from "../../shared/errors.ts";
import { RecurringFailure } from "../../shared/recurring.ts";
import type { LiveConnection } from "../engine.ts";
import type {
	ListenTarget,
	ProtocolRelay,
	RelayContext,
	ServicePortListener,
} from "../listener.ts";
import { dial, refuse } from "./dial.ts";
import { TcpAdmission } from "./tcp-admission.ts";
import { type AcceptedClient, TcpConnection, type TcpConnectionHost } from "./tcp-connection.ts";
import { openTcpListener } from "./tcp-listener.ts";

/**
 * Connections that may be dialing at once in one engine. A guess: with the usual timeouts a dial
 * lasts 4 s at most, so this is a thousand new connections a second that nobody answers.
 */
const MAX_DIALING = 4096;

/** How often the connections are looked over. */
const SWEEP_MS = 1000;

export interface TcpRelayOptions {
	/** One per attempt, in milliseconds; at least one. */
	readonly dialTimeoutsMs: readonly number[];
	readonly halfCloseIdleMs: number;
	/** Undefined: connections to an endpoint that was removed go on until they end. */
	readonly drainRemovedMs?: number | undefined;
	/** Accepted connections that may wait for descriptors. */
	readonly maxWaiting: number;
	readonly sweepMs?: number | undefined;
}

/** Listeners and connections of TCP, all in one event loop. */
export class TcpRelay implements ProtocolRelay {
	readonly #context: RelayContext;
	readonly #admission: TcpAdmission;
	readonly #host: TcpConnectionHost;
	readonly #connections = new Set<TcpConnection>();
	readonly #sweepTimer: NodeJS.Timeout;
	readonly #pauses: RecurringFailure;
	readonly #refusals: RecurringFailure;
	readonly #acceptFaults: RecurringFailure;
	readonly #localFaults: RecurringFailure;
	#overloadRefusals = 0;
	#onEmpty: (() => void)[] = [];

	constructor(context: RelayContext, options: TcpRelayOptions) {
		const { clock, budget, log } = context;
		this.#context = context;
		this.#admission = new TcpAdmission({
			budget,
			maxWaiting: options.maxWaiting,
			maxDialing: MAX_DIALING,
			now: () => clock.monotonicMs(),
			onPaused: () =>
				this.#pauses.failed("out of file descriptors", {
					descriptors: budget.used,
					descriptorLimit: budget.limit,
				}),
		});
		this.#pauses = new RecurringFailure({
			log,
			clock,
			failing: "accepting paused: new connections wait for others to end",
			recovered: "accepting resumed",
		});
		this.#refusals = new RecurringFailure({
			log,
			clock,
			failing: "connections refused",
			recovered: "no connection refused any more",
		});
		this.#acceptFaults = new RecurringFailure({
			log,
			clock,
			failing: "accepting fails",
			recovered: "accepting works again",
		});
		this.#localFaults = new RecurringFailure({
			log,
			clock,
			failing: "dialing fails for want of descriptors, local ports or memory",
			recovered: "dialing works again",
		});
		this.#host = {
			clock,
			dialTimeoutsMs: options.dialTimeoutsMs,
			halfCloseIdleMs: options.halfCloseIdleMs,
			drainRemovedMs: options.drainRemovedMs,
			dial: (endpoint, timeoutMs, onResult) =>
				context.leadsBack("tcp", endpoint)
					? refuse("ELOOP", onResult)
					: dial(endpoint, timeoutMs, onResult),
			onLocalError: (code) => this.#localFaults.failed(code ?? "unknown"),
			onDialed: () => this.#admission.dialed(),
			onEnd: (connection, record) => this.#onEnd(connection, record),
		};
		this.#sweepTimer = setInterval(() => this.#sweep(), options.sweepMs ?? SWEEP_MS).unref();
	}

	/** Connections refused for want of descriptors or local ports since the start. */
	get overloadRefusals(): number {
		return this.#overloadRefusals;
	}

	/** Connections that wait for descriptors. */
	get waitingConnections(): number {
		return this.#admission.waiting;
	}

	open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener> {
		return openTcpListener({
			servicePort,
			target,
			balancer: this.#context.createBalancer(target.sibling?.balancer),
			onClient: (client) => this.#accept(client),
			onError: (error) =>
				this.#acceptFaults.failed(describeError(error), { service: servicePort.name }),
		});
	}

	connections(): LiveConnection[] {
		return [...this.#connections].map((connection) => connection.describe());
	}

	count(): number {
		return this.#connections.size;
	}

	/** Resolves when no connection is left; with listeners open, others may come after that. */
	empty(): Promise<void> {
		if (this.#connections.size === 0) return Promise.resolve();
		return new Promise((resolve) => {
			this.#onEmpty.push(resolve);
		});
	}

	async close(): Promise<void> {
		clearInterval(this.#sweepTimer);
		for (const connection of this.#connections) connection.end("stopped");
		// Most descriptors are closed by now; a socket whose shutdown was under way takes another turn
		// of the loop (reset-socket.ts), and the close events one more.
		for (let turn = 0; turn < 2; turn += 1) await new Promise((resolve) => setImmediate(resolve));
	}

	#accept(client: AcceptedClient): void {
		const id = this.#context.nextId();
		const connection = new TcpConnection(id, client, this.#host);
		this.#connections.add(connection);
		this.#context.hooks.onConnectionStart({
			id,
			protocol: "tcp",
			service: client.service,
			clientAddress: client.address,
			clientPort: client.port,
		});
		this.#admission.apply(connection);
	}

	#onEnd(connection: TcpConnection, record: ConnectionRecord): void {
		this.#connections.delete(connection);
		if (record.end === "overload") {
			this.#overloadRefusals += 1;
			this.#refusals.failed("too many wait for descriptors, or dial at once", {
				service: record.service,
			});
		}
		this.#admission.left(connection);
		this.#context.hooks.onConnectionEnd(record);
		if (this.#connections.size > 0) return;
		const resolvers = this.#onEmpty;
		this.#onEmpty = [];
		for (const resolve of resolvers) resolve();
	}

	#sweep(): void {
		for (const connection of this.#connections) connection.sweep();
		this.#admission.sweep();
		// While clients wait it is one pause, however often the last of them was let in meanwhile.
		if (!this.#admission.isPaused) this.#pauses.sweep();
		this.#refusals.sweep();
		this.#acceptFaults.sweep();
		this.#localFaults.sweep();
	}
}
