import { availableParallelism } from "node:os";
import type { IpAddress } from "../../services/address.ts";
import type { ConnectionInterest, ConnectionRecord } from "../../services/connection-record.ts";
import { type Port, toPort } from "../../services/port.ts";
import type { ServicePort, ServicePortKey } from "../../services/service-port.ts";
import { systemClock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { SHUT_RDWR, shutdown } from "../../system/libc.ts";
import { AffinityEvictions } from "../affinity-evictions.ts";
import { DescriptorBudget, planDescriptors, tellDescriptors } from "../descriptor-budget.ts";
import { readDescriptorLimit } from "../descriptor-limit.ts";
import type { EngineStats, LiveConnection, ReconcileOutcome, RelayEngine } from "../engine.ts";
import { type EngineOptions, maxFlowsOf, requireFamily } from "../engine-options.ts";
import type { ListenTarget, RelayedPort, ServicePortListener } from "../listener.ts";
import { ListenerTable } from "../listener-table.ts";
import { NodeFaults } from "../node-faults.ts";
import { PortAllocator } from "../port-allocator.ts";
import { UdpFaults } from "../udp-faults.ts";
import { setOwnPort } from "./own-ports.ts";
import { findRingProblem } from "./ring-self-test.ts";
import { openListenSockets } from "./tcp-sockets.ts";
import { openDatagramSockets } from "./udp-sockets.ts";
import { workerCountFor } from "./worker-count.ts";
import { WorkerFailures } from "./worker-failures.ts";
import { Workers } from "./workers.ts";

const MAX_WORKERS = 4;
const MAX_DIALING = 4096;
const SWEEP_MS = 1000;
const DRAIN_LOOK_MS = 20;

export interface SyscallEngineOptions extends EngineOptions {
	/** Undefined: as many as there are processors, at most 4. */
	readonly workers?: number | undefined;
	/** False: no call is made through io_uring, even where it could be. */
	readonly ioUring?: boolean | undefined;
}

/** To be called where this process can make the system calls that it takes (self-test.ts). */
export function createSyscallEngine(options: SyscallEngineOptions): RelayEngine {
	return new SyscallEngine(options);
}

class SyscallEngine implements RelayEngine {
	readonly name = "syscall";
	readonly descriptors: DescriptorBudget;
	readonly #ports: PortAllocator;
	readonly #workers: Workers;
	readonly #listeners: ListenerTable;
	readonly #faults: NodeFaults;
	readonly #udpFaults: UdpFaults;
	readonly #affinity: AffinityEvictions;
	readonly #failures: WorkerFailures;
	readonly #sweepTimer: NodeJS.Timeout;
	readonly #keys = new Map<number, ServicePortKey>();
	#extraSockets = 0;
	readonly #closing = new Set<Promise<void>>();

	constructor(options: SyscallEngineOptions) {
		const { log, hooks, clock = systemClock, random = Math.random, udp } = options;
		const limit = options.descriptorLimit ?? readDescriptorLimit();
		const count = options.workers ?? Math.min(MAX_WORKERS, availableParallelism());
		const plan = planDescriptors(limit, count);
		this.#workers = new Workers({
			count,
			settings: {
				dialTimeoutsMs: options.dialTimeoutsMs,
				halfCloseIdleMs: options.halfCloseIdleMs,
				drainRemovedMs: options.drainRemovedMs,
				maxWaiting: plan.waiting,
				maxDialing: MAX_DIALING,
				maxAffinityClients: options.maxAffinityClients,
				descriptorLimit: plan.relaying,
				sweepMs: options.sweepMs ?? SWEEP_MS,
				ioUring: options.ioUring !== false && isRingThere(log),
				udp: { ...udp, maxFlows: Math.ceil(maxFlowsOf(udp, plan.relaying) / count) },
			},
			maxDescriptor: readDescriptorLimit(),
			hooks,
			onDeath: (worker, cause) => this.#failures.happened(worker, cause),
			onFault: (fault) => this.#faults.happened(fault),
			onUdpFault: (fault) => this.#udpFaults.happened(fault),
			onClientForgotten: () => this.#affinity.happened(),
		});
		this.#faults = new NodeFaults(log, clock);
		this.#udpFaults = new UdpFaults(log, clock, () => this.#workers.counter("udpFlows"));
		this.#affinity = new AffinityEvictions(log, clock);
		this.#failures = new WorkerFailures(log, clock);
		this.#sweepTimer = setInterval(
			() => this.#faults.sweep(this.#workers.counter("waiting") > 0),
			options.sweepMs ?? SWEEP_MS,
		).unref();
		const budget = new DescriptorBudget(plan.relaying, this.#workers.shared.descriptors);
		this.descriptors = budget;
		this.#ports = new PortAllocator({
			range: options.portRange,
			preferred: options.preferredPorts,
			random,
		});
		this.#listeners = new ListenerTable({
			ports: this.#ports,
			budget,
			addressFor: () => options.bindAddress,
			open: (servicePort, target) => this.#open(servicePort, target),
		});
		tellDescriptors(plan, log);
	}

	async reconcile(wanted: readonly ServicePort[]): Promise<ReconcileOutcome> {
		const outcome = await this.#listeners.reconcile(wanted);
		await this.#workers.settle();
		return outcome;
	}

	retire(referenced: ReadonlySet<ServicePortKey>): void {
		this.#listeners.retire(referenced);
		this.#ports.forgetPreferred();
	}

	async connections(): Promise<LiveConnection[]> {
		const all = await this.#workers.connections();
		return all.toSorted((a, b) => a.startedAtMs - b.startedAtMs);
	}

	want(interest: ConnectionInterest): void {
		this.#workers.want(interest);
	}

	async recent(): Promise<readonly ConnectionRecord[]> {
		return await this.#workers.recent();
	}

	async failingEndpoints(): Promise<ReadonlyMap<ServicePortKey, readonly string[]>> {
		const failing = new Map<ServicePortKey, readonly string[]>();
		for (const [id, endpoints] of await this.#workers.failing()) {
			const key = this.#keys.get(id);
			if (key !== undefined) failing.set(key, endpoints);
		}
		return failing;
	}

	stats(): EngineStats {
		const waitingConnections = this.#workers.counter("waiting");
		const dropped = this.#workers.droppedByReason();
		return {
			listeners: this.#listeners.size,
			tcpConnections: this.#workers.counter("connections"),
			waitingConnections,
			udpFlows: this.#workers.counter("udpFlows"),
			droppedDatagrams: dropped.values().reduce((sum, each) => sum + each, 0),
			droppedDatagramsByReason: dropped,
			evictedFlows: this.#workers.counter("evictedFlows"),
			affinityEvictions: this.#affinity.count,
			workers: this.#workers.count,
			ioUringWorkers: this.#workers.counter("ioUring"),
			workerFailures: this.#failures.count,
			lastWorkerFailure: this.#failures.last,
			overloadRefusals: this.#workers.counter("overloadRefusals"),
			acceptPaused: waitingConnections > 0,
		};
	}

	async drain(timeoutMs: number): Promise<number> {
		const endMs = performance.now() + timeoutMs;
		while (this.#workers.counter("connections") > 0 && performance.now() < endMs) {
			const waitMs = Math.min(DRAIN_LOOK_MS, Math.max(0, endMs - performance.now()));
			// oxlint-disable-next-line no-await-in-loop -- this is the wait
			await new Promise((resolve) => setTimeout(resolve, waitMs));
		}
		await this.#workers.settle();
		return this.#workers.counter("connections");
	}

	async close(): Promise<void> {
		clearInterval(this.#sweepTimer);
		this.#listeners.closeAll();
		await Promise.all(this.#closing);
		await this.#workers.stop();
		this.#udpFaults.close();
		this.#affinity.close();
		this.#failures.close();
	}

	#open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener> {
		requireFamily(servicePort, target.address);
		return Promise.resolve(this.#openSockets(servicePort, target));
	}

	#openSockets(servicePort: ServicePort, target: ListenTarget): WorkerListener {
		const { family, key, protocol, sessionAffinity } = servicePort;
		const count = workerCountFor({
			workers: this.#workers.count,
			hasAffinity: sessionAffinity.type !== "None",
			extraSockets: this.#extraSockets,
			descriptorLimit: this.descriptors.limit,
		});
		const place = { ...target, family };
		const { fds, port } =
			protocol === "tcp" ? openListenSockets(place, count) : openDatagramSockets(place, count);
		const sibling = target.sibling instanceof WorkerListener ? target.sibling.id : undefined;
		const id = this.#workers.open(servicePort, fds, sibling);
		// The listener table takes one for each ServicePort.
		this.#extraSockets += count - 1;
		this.descriptors.take(count - 1);
		this.#keys.set(id, key);
		setOwnPort(this.#workers.shared.ownPorts, protocol, family, port, true);
		return new WorkerListener({
			id,
			proxyPort: toPort(port),
			listenAddress: target.address,
			update: (changed) => this.#workers.update(id, changed),
			close: () => {
				setOwnPort(this.#workers.shared.ownPorts, protocol, family, port, false);
				this.#keys.delete(id);
				// Nobody is let in from now on; the port is free when the workers have let go of it.
				if (protocol === "tcp") for (const fd of fds) shutdown(fd, SHUT_RDWR);
				const closed = this.#workers.close(id).then(() => {
					this.#closing.delete(closed);
					this.#extraSockets -= count - 1;
					this.descriptors.give(count - 1);
				});
				this.#closing.add(closed);
			},
		});
	}
}

interface WorkerListenerParts {
	readonly id: number;
	readonly proxyPort: Port;
	readonly listenAddress: IpAddress | undefined;
	update(servicePort: RelayedPort): void;
	close(): void;
}

/** A listener as the listener table sees it. */
class WorkerListener implements ServicePortListener {
	readonly id: number;
	readonly proxyPort: Port;
	readonly listenAddress: IpAddress | undefined;
	readonly #parts: WorkerListenerParts;
	#isClosed: boolean = false;

	constructor(parts: WorkerListenerParts) {
		this.id = parts.id;
		this.proxyPort = parts.proxyPort;
		this.listenAddress = parts.listenAddress;
		this.#parts = parts;
	}

	update(servicePort: RelayedPort): void {
		this.#parts.update(servicePort);
	}

	/** The workers are asked instead. */
	failingEndpoints(): readonly string[] {
		return [];
	}

	close(): void {
		if (this.#isClosed) return;
		this.#isClosed = true;
		this.#parts.close();
	}
}

function isRingThere(log: Log): boolean {
	const reason = findRingProblem();
	if (reason === undefined) return true;
	log.info({ reason }, "io_uring cannot be used, workers make each system call by itself");
	return false;
}
