import { createBalancer } from "../../balancing/balancer.ts";
import { type IpAddress, type IpFamily, ipFamilyOf } from "../../services/address.ts";
import type { ConnectionRecord } from "../../services/connection-record.ts";
import type { ServicePort, ServicePortKey } from "../../services/service-port.ts";
import { systemClock } from "../../shared/clock.ts";
import { AffinityEvictions } from "../affinity-evictions.ts";
import { DescriptorBudget, planDescriptors, tellDescriptors } from "../descriptor-budget.ts";
import { readDescriptorLimit } from "../descriptor-limit.ts";
import type { EngineStats, LiveConnection, ReconcileOutcome, RelayEngine } from "../engine.ts";
import { type EngineOptions, maxFlowsOf, requireFamily } from "../engine-options.ts";
import type { ListenTarget, RelayContext, ServicePortListener, UdpRelay } from "../listener.ts";
import { ListenerTable } from "../listener-table.ts";
import { LocalAddresses } from "../local-addresses.ts";
import { PortAllocator } from "../port-allocator.ts";
import { repeat } from "../repeat.ts";
import { createUdpRelay } from "../udp/udp-relay.ts";
import { UdpFaults } from "../udp-faults.ts";
import { TcpRelay } from "./tcp-relay.ts";
import { createDatagramSocket } from "./udp-socket.ts";

/*
 * proxies/ turns ServicePorts into listeners on this node, and carries what they accept to the
 * endpoints that balancing/ picks. An engine (engine.ts) is one way of doing that; this one is
 * node:net and node:dgram in one event loop, the reference that works wherever Node does. What any
 * engine needs lies beside this folder: listener-table.ts, port-allocator.ts, descriptor-budget.ts.
 * The room owns all sockets that carry traffic and knows nothing of the API or of packet rules.
 */

export interface StreamEngineOptions extends EngineOptions {
	/**
	 * The node's address that UDP listeners of a family bind to, asked at each reconcile; undefined:
	 * every address. node:dgram cannot answer from the address that was asked but by such a socket.
	 */
	udpAddress(family: IpFamily): IpAddress | undefined;
}

export function createStreamEngine(options: StreamEngineOptions): RelayEngine {
	return new StreamEngine(options);
}

class StreamEngine implements RelayEngine {
	readonly name = "stream";
	readonly descriptors: DescriptorBudget;
	readonly #ports: PortAllocator;
	readonly #tcp: TcpRelay;
	readonly #udp: UdpRelay;
	readonly #udpFaults: UdpFaults;
	readonly #listeners: ListenerTable;
	readonly #affinity: AffinityEvictions;
	#nextId = 0;

	constructor(options: StreamEngineOptions) {
		const { log, hooks, clock = systemClock, random = Math.random } = options;
		const plan = planDescriptors(options.descriptorLimit ?? readDescriptorLimit());
		const budget = new DescriptorBudget(plan.relaying);
		this.descriptors = budget;
		const localAddresses = new LocalAddresses(() => clock.monotonicMs());
		const affinity = new AffinityEvictions(log, clock);
		const context: RelayContext = {
			hooks,
			clock,
			nextId: () => this.#newId(),
			budget,
			repeat,
			onUdpFault: (fault) => this.#udpFaults.happened(fault),
			leadsBack: (protocol, { address, port }) =>
				this.#ports.isTaken({ protocol, family: ipFamilyOf(address) }, port) &&
				localAddresses.has(address),
			createBalancer: (sibling) =>
				createBalancer({
					sibling,
					now: () => clock.monotonicMs(),
					random,
					onAffinityEviction: () => affinity.happened(),
					maxAffinityClients: options.maxAffinityClients,
				}),
		};
		this.#affinity = affinity;
		this.#ports = new PortAllocator({
			range: options.portRange,
			preferred: options.preferredPorts,
			random,
		});
		this.#tcp = new TcpRelay(context, {
			log,
			limits: options,
			maxWaiting: plan.waiting,
			sweepMs: options.sweepMs,
		});
		this.#udp = createUdpRelay(
			context,
			{ ...options.udp, maxFlows: maxFlowsOf(options.udp, plan.relaying) },
			createDatagramSocket,
		);
		this.#udpFaults = new UdpFaults(log, clock, () => this.#udp.count());
		this.#listeners = new ListenerTable({
			ports: this.#ports,
			budget,
			addressFor: ({ protocol, family }) =>
				options.bindAddress ?? (protocol === "udp" ? options.udpAddress(family) : undefined),
			open: (servicePort, target) => this.#open(servicePort, target),
		});
		tellDescriptors(plan, log);
	}

	reconcile(wanted: readonly ServicePort[]): Promise<ReconcileOutcome> {
		return this.#listeners.reconcile(wanted);
	}

	retire(referenced: ReadonlySet<ServicePortKey>): void {
		this.#listeners.retire(referenced);
		// Rules of our own are in force by now: nothing points at a predecessor's ports any more.
		this.#ports.forgetPreferred();
	}

	connections(): Promise<LiveConnection[]> {
		const all = [...this.#tcp.connections(), ...this.#udp.connections()].toSorted(
			(a, b) => a.startedAtMs - b.startedAtMs,
		);
		return Promise.resolve(all);
	}

	/** It tells of all: that costs no more than a call. */
	want(): void {}

	recent(): Promise<readonly ConnectionRecord[]> {
		return Promise.resolve([]);
	}

	failingEndpoints(): Promise<ReadonlyMap<ServicePortKey, readonly string[]>> {
		return Promise.resolve(this.#listeners.failingEndpoints());
	}

	stats(): EngineStats {
		const { waitingConnections } = this.#tcp;
		return {
			listeners: this.#listeners.size,
			tcpConnections: this.#tcp.count(),
			waitingConnections,
			udpFlows: this.#udp.count(),
			droppedDatagrams: this.#udp.droppedDatagrams(),
			droppedDatagramsByReason: this.#udp.droppedByReason(),
			evictedFlows: this.#udp.evictedFlows(),
			affinityEvictions: this.#affinity.count,
			workers: 0,
			ioUringWorkers: 0,
			workerFailures: 0,
			lastWorkerFailure: undefined,
			overloadRefusals: this.#tcp.overloadRefusals,
			acceptPaused: waitingConnections > 0,
		};
	}

	async drain(timeoutMs: number): Promise<number> {
		let timer: NodeJS.Timeout | undefined;
		const timeout = new Promise<void>((resolve) => {
			timer = setTimeout(resolve, timeoutMs);
		});
		await Promise.race([this.#tcp.empty(), timeout]);
		clearTimeout(timer);
		return this.#tcp.count();
	}

	async close(): Promise<void> {
		this.#listeners.closeAll();
		this.#affinity.close();
		await Promise.all([this.#tcp.close(), this.#udp.close()]);
		this.#udpFaults.close();
	}

	#open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener> {
		requireFamily(servicePort, target.address);
		const relay = servicePort.protocol === "tcp" ? this.#tcp : this.#udp;
		return relay.open(servicePort, target);
	}

	/** "1", "2", ... "z", "10": short enough to read out. */
	#newId(): string {
		this.#nextId += 1;
		return this.#nextId.toString(36);
	}
}
