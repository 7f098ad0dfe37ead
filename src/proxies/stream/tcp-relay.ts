import type { ConnectionRecord } from "../../services/connection-record.ts";
import type { ServicePort } from "../../services/service-port.ts";
import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { DescriptorBudget } from "../descriptor-budget.ts";
import type { LiveConnection } from "../engine.ts";
import type {
	ListenTarget,
	ProtocolRelay,
	RelayContext,
	ServicePortListener,
	TcpLimits,
} from "../listener.ts";
import { NodeFaults } from "../node-faults.ts";
import { TcpAdmission } from "../tcp-admission.ts";
import { dial, refuse } from "./dial.ts";
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
	readonly log: Log;
	readonly limits: TcpLimits;
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
	readonly #faults: NodeFaults;
	#overloadRefusals = 0;
	#onEmpty: (() => void)[] = [];

	constructor(context: RelayContext, options: TcpRelayOptions) {
		const { clock, budget } = context;
		this.#context = context;
		this.#faults = new NodeFaults(options.log, clock);
		this.#admission = new TcpAdmission({
			budget,
			waitingRoom: new DescriptorBudget(options.maxWaiting),
			maxDialing: MAX_DIALING,
			now: () => clock.monotonicMs(),
			onPaused: () =>
				this.#faults.happened({
					kind: "paused",
					text: "out of file descriptors",
					fields: { descriptors: budget.used, descriptorLimit: budget.limit },
				}),
		});
		this.#host = {
			clock,
			limits: options.limits,
			dial: (endpoint, timeoutMs, onResult) =>
				context.leadsBack("tcp", endpoint)
					? refuse("ELOOP", onResult)
					: dial(endpoint, timeoutMs, onResult),
			onLocalError: (code) =>
				this.#faults.happened({ kind: "local", text: code ?? "unknown", fields: {} }),
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
				this.#faults.happened({
					kind: "accept",
					text: describeError(error),
					fields: { service: servicePort.name },
				}),
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
			service: client.servicePort.name,
			clientAddress: client.address,
			clientPort: client.port,
		});
		this.#admission.apply(connection);
	}

	#onEnd(connection: TcpConnection, record: ConnectionRecord): void {
		this.#connections.delete(connection);
		if (record.end === "overload") {
			this.#overloadRefusals += 1;
			this.#faults.happened({
				kind: "refused",
				text: "too many wait for descriptors, or dial at once",
				fields: { service: record.service },
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
		this.#faults.sweep(this.#admission.isPaused);
	}
}
