import { createBalancer } from "../../balancing/balancer.ts";
import type { EndpointNews } from "../../balancing/pick.ts";
import { ipFamilyOf } from "../../services/address.ts";
import type { ConnectionRecord } from "../../services/connection-record.ts";
import type { Endpoint, Protocol } from "../../services/service-port.ts";
import type { Clock } from "../../shared/clock.ts";
import {
	EPOLLET,
	EPOLLIN,
	EPOLLOUT,
	EPOLLPRI,
	EPOLLRDHUP,
	getsockname,
} from "../../system/libc.ts";
import { codeOf } from "../../system/system-error.ts";
import { DescriptorBudget } from "../descriptor-budget.ts";
import type { LiveConnection } from "../engine.ts";
import { LocalAddresses } from "../local-addresses.ts";
import type { NodeFaultKind } from "../node-faults.ts";
import { TcpAdmission } from "../tcp-admission.ts";
import { CallQueue, MAX_QUEUED_CALLS } from "./call-queue.ts";
import { Deadlines } from "./deadlines.ts";
import { IoRing } from "./io-ring.ts";
import { ListenerWatch } from "./listener-watch.ts";
import type { WorkerSettings } from "./messages.ts";
import { isOwnPort } from "./own-ports.ts";
import { PipePool } from "./pipe-pool.ts";
import { PlacedList } from "./placed-list.ts";
import { Poller } from "./poller.ts";
import type { CreateBalancer, ServedPort } from "./served-port.ts";
import { SharedTurn } from "./shared-turn.ts";
import { SocketAddress } from "./socket-address.ts";
import {
	type AcceptedClient,
	type Dialed,
	TcpConnection,
	type TcpConnectionHost,
} from "./tcp-connection.ts";
import { TcpListeners } from "./tcp-listeners.ts";
import { endpointAddress, startConnect } from "./tcp-sockets.ts";
import type { Teller } from "./teller.ts";
import { WorkerCounters } from "./worker-counters.ts";

const CONNECTION_EVENTS = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;

export interface TcpWorkerParts {
	readonly settings: WorkerSettings;
	/** The time of this turn of the loop. */
	readonly clock: Clock;
	readonly teller: Teller;
	/** There is room for a connection that waits, here or in another worker. */
	onRoom(): void;
	/** An endpoint of a listener failed, or answered after that. */
	onNews(listener: number, endpointKey: string, news: EndpointNews): void;
}

/** All that one thread relays: its listeners, its connections and what they share. */
export class TcpWorker {
	readonly listeners: TcpListeners;
	/** Of the sockets that clients come to. */
	readonly watch: ListenerWatch;
	readonly poller: Poller;
	/** What waits to be done by few calls. */
	readonly calls: CallQueue;
	/** What this worker takes of the descriptors that all share. */
	readonly budget: DescriptorBudget;
	readonly #parts: TcpWorkerParts;
	readonly #deadlines = new Deadlines();
	readonly #admission: TcpAdmission;
	readonly #connections = new PlacedList<TcpConnection>();
	readonly #counters: WorkerCounters;
	readonly #host: TcpConnectionHost;
	readonly #localAddresses: LocalAddresses;
	readonly #address = new SocketAddress();
	/** In the kernel's form, made once for each. */
	readonly #endpointAddresses = new WeakMap<Endpoint, SocketAddress>();
	readonly #pipes: PipePool;
	/** Those that have something to do: events came, or one turn was not enough. */
	#queued: TcpConnection[] = [];
	/** Accepted in this turn: what their clients have sent by now, the next one tells. */
	#accepted: TcpConnection[] = [];

	constructor(parts: TcpWorkerParts) {
		const { settings, clock } = parts;
		const { shared, index } = settings;
		const budget = shareOf(settings.descriptorLimit, shared.descriptors, index);
		this.budget = budget;
		this.#counters = new WorkerCounters(shared, index);
		this.#parts = parts;
		this.calls = this.#createCalls();
		this.poller = new Poller(this.calls, this.#closed);
		this.opened(this.poller.fd);
		this.#pipes = new PipePool(budget, this.opened, this.#closed);
		this.#localAddresses = new LocalAddresses(() => clock.monotonicMs());
		this.#admission = new TcpAdmission({
			budget,
			waitingRoom: shareOf(settings.maxWaiting, shared.waiting, index),
			maxDialing: settings.maxDialing,
			now: () => clock.monotonicMs(),
			onPaused: () =>
				this.#fault("paused", "out of file descriptors", {
					descriptors: budget.used,
					descriptorLimit: budget.limit,
				}),
			onRoom: () => parts.onRoom(),
		});
		this.#host = this.#createHost();
		this.watch = new ListenerWatch({
			poller: this.poller,
			after: (durationMs, run) => this.#host.after(durationMs, run),
			onUnwatched: ({ port }, code) => this.#fault("unwatched", code, { service: port.name }),
		});
		this.listeners = this.#createListeners();
		this.#sweepLater();
	}

	#createCalls(): CallQueue {
		const ring = this.#parts.settings.ioUring ? openRing() : undefined;
		this.#counters.set("ioUring", ring === undefined ? 0 : 1);
		if (ring !== undefined) this.opened(ring.fd);
		return new CallQueue(ring, this.#closed);
	}

	/** To be told of each descriptor that this worker opens: none of them is lost with it. */
	readonly opened = (fd: number): void => {
		const { shared, index } = this.#parts.settings;
		shared.owners[fd] = index + 1;
	};

	readonly #closed = (fd: number): void => {
		this.#parts.settings.shared.owners[fd] = 0;
	};

	/** One that shares its rotation and its news with those of other workers. */
	readonly createBalancer: CreateBalancer = (listener, turn, sibling) => {
		const { clock, settings, teller } = this.#parts;
		return createBalancer({
			now: () => clock.monotonicMs(),
			// A rotation that is shared begins where the engine has put it.
			random: () => 0,
			turn: new SharedTurn(settings.shared.turns, turn),
			onAffinityEviction: () => teller.happened("client-forgotten", clock.monotonicMs()),
			maxAffinityClients: settings.maxAffinityClients,
			onNews: (endpointKey, news) => this.#parts.onNews(listener, endpointKey, news),
			sibling,
		});
	};

	/** It is our turn to have the room of one that ended. */
	letInOne(): void {
		this.#admission.letInOne();
		this.#counters.set("waiting", this.#admission.waiting);
	}

	/** One turn: waits for events, and does what they and the time ask for. */
	turn(maxWaitMs: number): void {
		const { clock } = this.#parts;
		const accepted = this.#accepted;
		const isMoreToDo = this.#queued.length > 0 || accepted.length > 0;
		this.#accepted = [];
		// An addition that waits could not wake us, and what comes of these calls may be due before anything else.
		this.calls.run();
		this.poller.wait(isMoreToDo ? 0 : this.#waitMs(maxWaitMs));
		if (accepted.length > 0) this.#letIn(accepted);
		this.#goOn();
		this.#deadlines.run(clock.monotonicMs());
		this.poller.closeDue();
	}

	/** What many have to read and to write is done by few calls. */
	#goOn(): void {
		const queued = this.#queued;
		this.#queued = [];
		for (const connection of queued) {
			connection.isQueued = false;
			connection.begin();
		}
		this.calls.run();
		for (const connection of queued) connection.goOn();
	}

	/** Runs something again and again. @returns ends that. */
	repeat(periodMs: number, run: () => void): () => void {
		const again = (): void => {
			next = this.#host.after(periodMs, again);
			run();
		};
		let next = this.#host.after(periodMs, again);
		return () => next.cancel();
	}

	/** Of the endpoint, where it is one of our own listeners. */
	leadsBack(protocol: Protocol, { address, port }: Endpoint): boolean {
		return (
			isOwnPort(this.#parts.settings.shared.ownPorts, protocol, ipFamilyOf(address), port) &&
			this.#localAddresses.has(address)
		);
	}

	connections(): readonly LiveConnection[] {
		const connections: LiveConnection[] = [];
		this.#connections.visitAll((connection) => connections.push(connection.describe()));
		return connections;
	}

	/** Ends everything so; the listening sockets stay open. */
	stop(end: "stopped" | "relay-failed"): void {
		this.listeners.releaseAll();
		this.#connections.visitAll((connection) => connection.end(end));
		this.#pipes.clear();
		this.#closed(this.poller.fd);
		this.poller.close();
		this.calls.release();
	}

	#createHost(): TcpConnectionHost {
		const { settings, clock } = this.#parts;
		return {
			clock,
			limits: settings,
			means: { calls: this.calls, pipes: this.#pipes },
			dial: (endpoint, connection, hasBytes) => this.#dial(endpoint, connection, hasBytes),
			isConnectedToItself: (fd, endpoint) => this.#isConnectedToItself(fd, endpoint),
			close: (fd) => this.poller.closeLater(fd),
			after: (durationMs, run) => this.#deadlines.after(durationMs, clock.monotonicMs(), run),
			goOnSoon: (connection) => {
				if (connection.isQueued) return;
				connection.isQueued = true;
				this.#queued.push(connection);
			},
			onLocalError: (code) => this.#fault("local", code, {}),
			onDialed: () => this.#admission.dialed(),
			onEnd: (connection, record) => this.#onEnd(connection, record),
		};
	}

	#createListeners(): TcpListeners {
		return new TcpListeners({
			watch: this.watch,
			createBalancer: this.createBalancer,
			onAccepted: (served, fd, from) => this.#onAccepted(served, fd, from),
			onAcceptFault: ({ port }, code) => this.#fault("accept", code, { service: port.name }),
		});
	}

	#onAccepted({ port, balancer }: ServedPort, fd: number, from: SocketAddress): void {
		this.opened(fd);
		const client = { fd, address: from.address, port: from.port, servicePort: port, balancer };
		const id = this.newId();
		const connection = new TcpConnection(id, client, this.#host);
		this.#connections.add(connection);
		this.#counters.set("connections", this.#connections.size);
		this.#tellStart(id, client);
		this.poller.addSoon(fd, CONNECTION_EVENTS, connection);
		this.#accepted.push(connection);
	}

	#tellStart(id: string, { address, port, servicePort }: AcceptedClient): void {
		const { teller, clock } = this.#parts;
		const nowMs = clock.monotonicMs();
		const service = servicePort.name;
		if (!teller.interest.starts) {
			teller.countStart("tcp", service, nowMs);
			return;
		}
		const start = { id, service, clientAddress: address, clientPort: port };
		teller.happened({ start: { protocol: "tcp", ...start } }, nowMs);
	}

	#letIn(accepted: readonly TcpConnection[]): void {
		for (const connection of accepted) {
			// Its client may have gone since.
			if (!connection.isOver) this.#admission.apply(connection);
		}
		this.#counters.set("waiting", this.#admission.waiting);
	}

	#dial(endpoint: Endpoint, connection: TcpConnection, hasBytes: boolean): Dialed {
		if (this.leadsBack("tcp", endpoint)) return { code: "ELOOP" };
		let address = this.#endpointAddresses.get(endpoint);
		if (address === undefined) {
			address = endpointAddress(endpoint);
			this.#endpointAddresses.set(endpoint, address);
		}
		const fd = startConnect(address, hasBytes);
		if (fd < 0) return { code: codeOf(fd) };
		this.opened(fd);
		this.poller.addSoon(fd, CONNECTION_EVENTS, connection);
		return { fd };
	}

	/** Only an endpoint of this node can be: most dials are spared the question. */
	#isConnectedToItself(fd: number, { address, port }: Endpoint): boolean {
		if (!this.#localAddresses.has(address) && !address.startsWith("127.")) return false;
		getsockname(fd, this.#address.bytes);
		return this.#address.port === port && this.#address.address === address;
	}

	#onEnd(connection: TcpConnection, record: ConnectionRecord): void {
		this.#connections.remove(connection);
		if (record.end === "overload") {
			this.#counters.increase("overloadRefusals");
			this.#fault("refused", "too many wait for descriptors, or dial at once", {
				service: record.service,
			});
		}
		this.#admission.left(connection);
		this.#parts.teller.ended(record, this.#parts.clock.monotonicMs());
		this.#counters.set("connections", this.#connections.size);
		this.#counters.set("waiting", this.#admission.waiting);
	}

	#fault(kind: NodeFaultKind, text: string, fields: object): void {
		const { teller, clock } = this.#parts;
		teller.happened({ fault: { kind, text, fields } }, clock.monotonicMs());
	}

	#sweepLater(): void {
		this.#host.after(this.#parts.settings.sweepMs, () => {
			this.#sweep();
			this.#sweepLater();
		});
	}

	#sweep(): void {
		this.#connections.visitAll((connection) => connection.sweep());
		this.#admission.sweep();
		this.#counters.set("waiting", this.#admission.waiting);
	}

	#waitMs(maxWaitMs: number): number {
		const nextMs = Math.ceil(this.#deadlines.nextInMs(this.#parts.clock.monotonicMs()));
		return Math.min(maxWaitMs, nextMs);
	}

	/** Unique over all workers, which have numbers of their own. */
	newId(): string {
		const { index, workers } = this.#parts.settings;
		return (this.#counters.increase("lastId") * workers + index).toString(36);
	}
}

/** What one worker may take of what all share. */
function shareOf(limit: number, used: Int32Array, index: number): DescriptorBudget {
	return new DescriptorBudget(limit, used, used.subarray(1 + index, 2 + index));
}

/** @returns undefined where none can be had, though there is io_uring: of many workers, some may do without. */
function openRing(): IoRing | undefined {
	try {
		return new IoRing(MAX_QUEUED_CALLS);
	} catch {
		return undefined;
	}
}
