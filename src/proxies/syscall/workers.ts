import { MAX_TURN, placesOf } from "../../balancing/round-robin.ts";
import type { ConnectionInterest, ConnectionRecord } from "../../services/connection-record.ts";
import type { Endpoint, Protocol, ServicePort } from "../../services/service-port.ts";
import { Backoff } from "../../shared/backoff.ts";
import { close } from "../../system/libc.ts";
import { DROP_REASONS, type DropReason } from "../drop-reason.ts";
import type { EngineHooks, LiveConnection } from "../engine.ts";
import type { RelayedPort } from "../listener.ts";
import type { NodeFault } from "../node-faults.ts";
import type { UdpFault } from "../udp-faults.ts";
import {
	COUNTER_COUNT,
	COUNTERS,
	FIRST_DROP_COUNTER,
	type SharedState,
	type WorkerSettings,
} from "./messages.ts";
import { OWN_PORTS_BYTES } from "./own-ports.ts";
import { writeRelayedPort } from "./relayed-port.ts";
import { SharedTurn } from "./shared-turn.ts";
import { WorkerHandle, type WorkerHandleOptions } from "./worker-handle.ts";

/** Rotations that may be shared; a ServicePort beyond shares one with another, which is only less even. */
const MAX_TURNS = 65_536;

/** A worker that dies at once again and again must not take the whole processor. */
const RESTART_AFTER_MS = { initialMs: 100, maxMs: 5_000, factor: 2, jitter: 0 };

/** One that has lived so long has not died at once. */
const STEADY_MS = 30_000;

export interface WorkersOptions {
	readonly count: number;
	readonly settings: Pick<
		WorkerSettings,
		| "dialTimeoutsMs"
		| "halfCloseIdleMs"
		| "drainRemovedMs"
		| "maxWaiting"
		| "maxDialing"
		| "maxAffinityClients"
		| "descriptorLimit"
		| "sweepMs"
		| "ioUring"
		| "udp"
	>;
	/** The highest number that a descriptor may have. */
	readonly maxDescriptor: number;
	readonly hooks: EngineHooks;
	onFault(fault: NodeFault): void;
	onUdpFault(fault: UdpFault): void;
	/** Session affinity forgot a client. */
	onClientForgotten(): void;
	/** One ended and nobody had stopped it, or could not be started. Another takes its place. */
	onDeath(worker: number, cause: unknown): void;
	/** Starts one; where tests put something else. */
	readonly start?: (options: WorkerHandleOptions) => WorkerLink;
}

type WorkerLink = Pick<WorkerHandle, "tell" | "ask" | "release" | "stop">;

/** When a worker was last started, and how long its successor waits. */
interface Life {
	startedAtMs: number;
	readonly waits: Backoff;
}

/** A listener, and which of its sockets are with which worker. */
interface Served {
	readonly id: number;
	/** Index in SharedState.turns. */
	readonly turn: number;
	readonly fds: readonly number[];
	readonly protocol: Protocol;
	/** Of writeRelayedPort. */
	servicePort: string;
	/** Those in it. */
	endpoints: readonly Endpoint[];
	readonly sibling: number | undefined;
	/** By worker. */
	shares: ReadonlyMap<number, readonly number[]>;
	/** Settles when every worker has what `shares` says. */
	moved: Promise<void>;
}

/** The worker threads of an engine: who serves which listener, and what they say. */
export class Workers {
	readonly shared: SharedState;
	readonly #options: WorkersOptions;
	readonly #handles: WorkerLink[] = [];
	readonly #lives: readonly Life[];
	readonly #restarts = new Set<NodeJS.Timeout>();
	readonly #served = new Map<number, Served>();
	/** Of listeners whose sockets go from some workers to one. */
	readonly #moving = new Set<Promise<void>>();
	#nextListener = 1;
	/** The worker that was last let have one more connection. */
	#lastGranted = 0;
	#isStopping: boolean = false;
	#interest: ConnectionInterest = { starts: true, ends: "all" };

	constructor(options: WorkersOptions) {
		this.#options = options;
		const numbers = (count: number, bytes: number) => new SharedArrayBuffer(count * bytes);
		this.shared = {
			descriptors: new Int32Array(numbers(1 + options.count, 4)),
			waiting: new Int32Array(numbers(1 + options.count, 4)),
			woken: new Int32Array(numbers(options.count, 4)),
			owners: new Uint8Array(numbers(options.maxDescriptor + 1, 1)),
			ownPorts: new Uint8Array(numbers(OWN_PORTS_BYTES, 1)),
			counters: new Float64Array(numbers(options.count * COUNTER_COUNT, 8)),
			turns: new Int32Array(numbers(MAX_TURNS, 4)),
		};
		this.#lives = Array.from({ length: options.count }, () => ({
			startedAtMs: 0,
			waits: new Backoff(RESTART_AFTER_MS),
		}));
		for (let index = 0; index < options.count; index += 1) {
			this.#handles.push(this.#start(index));
		}
	}

	get count(): number {
		return this.#options.count;
	}

	/** Over all workers. */
	counter(name: keyof typeof COUNTERS): number {
		let sum = 0;
		for (let index = 0; index < this.count; index += 1) {
			sum += this.shared.counters[index * COUNTER_COUNT + COUNTERS[name]] ?? 0;
		}
		return sum;
	}

	/** Over all workers, those that have ended included. */
	droppedByReason(): ReadonlyMap<DropReason, number> {
		return new Map(
			DROP_REASONS.map((reason, at) => {
				let sum = 0;
				for (let index = 0; index < this.count; index += 1) {
					sum += this.shared.counters[index * COUNTER_COUNT + FIRST_DROP_COUNTER + at] ?? 0;
				}
				return [reason, sum];
			}),
		);
	}

	/**
	 * Has a ServicePort served at these listening sockets.
	 *
	 * @param sibling the listener that it shares session affinity with.
	 * @returns the listener's number.
	 */
	open(
		servicePort: RelayedPort & Pick<ServicePort, "protocol">,
		fds: readonly number[],
		sibling: number | undefined,
	): number {
		const id = this.#nextListener;
		this.#nextListener += 1;
		// Rotations begin anywhere, so that nodes and Services differ.
		const turn = id % MAX_TURNS;
		this.shared.turns[turn] = Math.floor(Math.random() * MAX_TURN);
		const shares = this.#deal(id, fds, sibling);
		const moved = Promise.resolve();
		const { protocol, endpoints } = servicePort;
		const text = writeRelayedPort(servicePort);
		const told = { protocol, servicePort: text, endpoints };
		const served: Served = { id, turn, fds, ...told, sibling, shares, moved };
		this.#served.set(id, served);
		for (const [worker, share] of shares) this.#openAt(worker, served, share);
		return id;
	}

	update(id: number, servicePort: RelayedPort): void {
		const served = this.#served.get(id);
		if (served === undefined) return;
		served.servicePort = writeRelayedPort(servicePort);
		const { endpoints } = servicePort;
		if (endpoints !== served.endpoints) {
			const turn = new SharedTurn(this.shared.turns, served.turn);
			turn.keepPlace(served.endpoints, placesOf(endpoints));
			served.endpoints = endpoints;
		}
		const isOfClients = servicePort.sessionAffinity.type !== "None";
		if (isOfClients && served.shares.size > 1) served.moved = this.#move(served);
		for (const worker of served.shares.keys()) {
			this.#handles[worker]?.tell({
				kind: "update",
				listener: id,
				servicePort: served.servicePort,
			});
		}
	}

	#move(served: Served): Promise<void> {
		const moved = this.#gather(served).finally(() => this.#moving.delete(moved));
		this.#moving.add(moved);
		return moved;
	}

	/**
	 * Hands all sockets of a listener to one worker, which knows all of its clients from then on. Clients
	 * that come meanwhile wait in the sockets.
	 */
	async #gather(served: Served): Promise<void> {
		const { id, fds } = served;
		const lone = this.#workerOf(served.sibling);
		// Where the other one of its port is, so that they can share.
		const inOrder = [...served.shares].sort(([a], [b]) => Number(b === lone) - Number(a === lone));
		const [[owner, share] = [0, []], ...others] = inOrder;
		served.shares = new Map([[owner, fds]]);
		await Promise.all(others.map(async ([worker]) => await this.#handles[worker]?.release(id)));
		const rest = fds.filter((fd) => !share.includes(fd));
		if (this.#served.get(id) === served) this.#openAt(owner, served, rest);
	}

	/** Resolves when its sockets are closed. */
	async close(id: number): Promise<void> {
		const served = this.#served.get(id);
		if (served === undefined) return;
		this.#served.delete(id);
		await served.moved;
		await Promise.all(
			[...served.shares.keys()].map(async (worker) => await this.#handles[worker]?.release(id)),
		);
		for (const fd of served.fds) close(fd);
	}

	/** Resolves when every worker has done what it was told until now, and said what has happened. */
	async settle(): Promise<void> {
		await Promise.all(this.#moving);
		await Promise.all(this.#handles.map((handle) => handle.ask("nothing")));
	}

	async connections(): Promise<readonly LiveConnection[]> {
		const all = await Promise.all(this.#handles.map((handle) => handle.ask("connections")));
		return all.flatMap((each) => each ?? []);
	}

	want(interest: ConnectionInterest): void {
		this.#interest = interest;
		for (const handle of this.#handles) handle.tell({ kind: "want", interest });
	}

	/** Records that were only counted. */
	async recent(): Promise<readonly ConnectionRecord[]> {
		const all = await Promise.all(this.#handles.map((handle) => handle.ask("recent")));
		return all.flatMap((each) => each ?? []);
	}

	/** By listener. */
	async failing(): Promise<ReadonlyMap<number, readonly string[]>> {
		const failing = new Map<number, readonly string[]>();
		for (const each of await Promise.all(this.#handles.map((handle) => handle.ask("failing")))) {
			for (const [id, endpoints] of each ?? []) {
				failing.set(id, [...new Set([...(failing.get(id) ?? []), ...endpoints])]);
			}
		}
		return failing;
	}

	async stop(): Promise<void> {
		this.#isStopping = true;
		for (const timer of this.#restarts) clearTimeout(timer);
		await Promise.all(this.#handles.map((handle) => handle.stop()));
		for (const { fds } of this.#served.values()) for (const fd of fds) close(fd);
		this.#served.clear();
	}

	/** One worker has all sockets of a listener that has one; else each has its own. */
	#deal(
		id: number,
		fds: readonly number[],
		sibling: number | undefined,
	): ReadonlyMap<number, readonly number[]> {
		if (fds.length === 1) return new Map([[this.#workerOf(sibling) ?? id % this.count, fds]]);
		return new Map(fds.map((fd, index) => [index % this.count, [fd]]));
	}

	/** The one that has a listener, or the first of those; undefined where there is no such listener. */
	#workerOf(listener: number | undefined): number | undefined {
		const [first] = this.#served.get(listener ?? -1)?.shares.keys() ?? [];
		return first;
	}

	#openAt(worker: number, served: Served, fds: readonly number[]): void {
		const { id, turn, protocol, servicePort, sibling } = served;
		this.#handles[worker]?.tell({
			kind: "open",
			listener: id,
			fds,
			protocol,
			servicePort,
			sibling,
			turn,
		});
	}

	/** @throws the system's error where it has nothing for one more thread. */
	#start(index: number): WorkerLink {
		const { settings, hooks, count, start = startWorker } = this.#options;
		const life = this.#lives[index];
		if (life !== undefined) life.startedAtMs = performance.now();
		return start({
			settings: {
				...settings,
				index,
				workers: count,
				shared: this.shared,
				interest: this.#interest,
			},
			hooks,
			onFault: (fault) => this.#options.onFault(fault),
			onUdpFault: (fault) => this.#options.onUdpFault(fault),
			onClientForgotten: () => this.#options.onClientForgotten(),
			onNews: (listener, endpointKey, news) => {
				for (const other of this.#served.get(listener)?.shares.keys() ?? []) {
					if (other === index) continue;
					this.#handles[other]?.tell({ kind: "note", listener, endpointKey, news });
				}
			},
			onRoom: () => this.#grantRoom(),
			onDeath: (cause) => this.#replace(index, cause),
		});
	}

	/** Each worker that has connections which wait gets its turn, however the kernel deals clients out. */
	#grantRoom(): void {
		for (let step = 1; step <= this.count; step += 1) {
			const index = (this.#lastGranted + step) % this.count;
			if ((this.shared.waiting[1 + index] ?? 0) <= 0) continue;
			this.#lastGranted = index;
			this.#handles[index]?.tell({ kind: "room" });
			return;
		}
	}

	/** Listening sockets are this thread's, so that clients wait in them for the next worker. */
	#replace(index: number, cause: unknown): void {
		this.#options.onDeath(index, cause);
		this.#tidyAfter(index);
		const life = this.#lives[index];
		if (life === undefined || this.#isStopping) return;
		if (performance.now() - life.startedAtMs >= STEADY_MS) life.waits.reset();
		const timer = setTimeout(() => {
			this.#restarts.delete(timer);
			this.#restart(index);
		}, life.waits.next());
		this.#restarts.add(timer);
	}

	/** Gives back what a worker had. */
	#tidyAfter(index: number): void {
		const { owners, counters } = this.shared;
		for (let fd = 0; fd < owners.length; fd += 1) {
			if (owners[fd] !== index + 1) continue;
			owners[fd] = 0;
			close(fd);
		}
		counters[index * COUNTER_COUNT + COUNTERS.connections] = 0;
		counters[index * COUNTER_COUNT + COUNTERS.waiting] = 0;
		counters[index * COUNTER_COUNT + COUNTERS.udpFlows] = 0;
		for (const used of [this.shared.descriptors, this.shared.waiting]) {
			Atomics.sub(used, 0, Atomics.exchange(used, 1 + index, 0));
		}
	}

	#restart(index: number): void {
		try {
			this.#handles[index] = this.#start(index);
		} catch (error) {
			this.#replace(index, error);
			return;
		}
		for (const served of this.#served.values()) {
			const share = served.shares.get(index);
			if (share !== undefined) this.#openAt(index, served, share);
		}
	}
}

function startWorker(options: WorkerHandleOptions): WorkerLink {
	return new WorkerHandle(options);
}
