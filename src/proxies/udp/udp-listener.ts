import type { Balancer, Candidate } from "../../balancing/pick.ts";
import { type IpAddress, type IpFamily, parseIpAddress } from "../../services/address.ts";
import type { ConnectionRecord } from "../../services/connection-record.ts";
import { type Port, toPort } from "../../services/port.ts";
import type { Endpoint, ServicePort } from "../../services/service-port.ts";
import type { Clock } from "../../shared/clock.ts";
import { errorCode } from "../../shared/errors.ts";
import type { DropReason } from "../drop-reason.ts";
import type {
	ListenTarget,
	RelayContext,
	RelayedPort,
	ServicePortListener,
	UdpLimits,
} from "../listener.ts";
import type { CreateDatagramSocket, DatagramSocket, Sender } from "./datagram-socket.ts";
import type { UdpDrops } from "./udp-drops.ts";
import { type FlowClient, UdpFlow, type UdpFlowHost } from "./udp-flow.ts";
import type { FlowGroup, FlowTable } from "./udp-flow-table.ts";
import type { HeldBytes } from "./udp-held-bytes.ts";

/**
 * Answers of one listener that may wait for the kernel: node:dgram queues what the kernel does not
 * take, without a bound of its own.
 */
const MAX_WAITING_ANSWER_BYTES = 4 * 1024 * 1024;

const NONE_TRIED: Candidate["tried"] = new Set();

/** What all UDP listeners of an engine share. */
export interface UdpShared {
	readonly context: RelayContext;
	readonly limits: UdpLimits;
	readonly table: FlowTable<UdpFlow>;
	readonly drops: UdpDrops;
	readonly waitingBytes: HeldBytes;
	readonly keptBytes: HeldBytes;
	readonly createSocket: CreateDatagramSocket;
	/** Makes room in the table and takes a descriptor for one flow; false: nothing was taken. */
	takeDescriptor(): boolean;
	/** There is something to sweep. Cheap. */
	wake(): void;
	onClose(listener: UdpListener): void;
}

/** @throws the system's error; nothing is open then. */
export function openUdpListener(
	servicePort: ServicePort,
	target: ListenTarget,
	shared: UdpShared,
): Promise<UdpListener> {
	const { promise, resolve, reject } = Promise.withResolvers<UdpListener>();
	const socket = shared.createSocket(servicePort.family, "listener");
	let isListening = false;
	socket.on("error", (error) => {
		if (isListening) {
			shared.drops.drop("receive-failed", servicePort.name, errorCode(error));
			shared.wake();
		} else {
			socket.close();
			reject(error);
		}
	});
	socket.on("listening", () => {
		isListening = true;
		resolve(new UdpListener(servicePort, target, socket, shared));
	});
	const address = target.address === undefined ? {} : { address: target.address };
	// Exclusive: not shared through a cluster's primary process.
	socket.bind({ ...address, port: target.port, exclusive: true });
	return promise;
}

/** @param socket bound. The listener's from now on. */
export function adoptUdpSocket(
	servicePort: RelayedPort,
	target: ListenTarget,
	socket: DatagramSocket,
	shared: UdpShared,
): UdpListener {
	socket.on("error", (error) => {
		shared.drops.drop("receive-failed", servicePort.name, errorCode(error));
	});
	return new UdpListener(servicePort, target, socket, shared);
}

/** The socket of one ServicePort that clients' datagrams come to and answers leave from. */
export class UdpListener implements ServicePortListener, UdpFlowHost {
	readonly proxyPort: Port;
	readonly listenAddress: IpAddress | undefined;
	readonly balancer: Balancer;
	readonly family: IpFamily;
	readonly clock: Clock;
	readonly limits: UdpLimits;
	readonly createSocket: CreateDatagramSocket;
	readonly waitingBytes: HeldBytes;
	readonly keptBytes: HeldBytes;
	readonly #shared: UdpShared;
	readonly #socket: DatagramSocket;
	readonly #flows: FlowGroup<UdpFlow>;
	#servicePort: RelayedPort;
	#isClosed: boolean = false;

	/** @param socket bound. The listener's from now on. */
	constructor(
		servicePort: RelayedPort,
		target: Pick<ListenTarget, "address" | "sibling" | "balancer">,
		socket: DatagramSocket,
		shared: UdpShared,
	) {
		const { context, limits, createSocket, waitingBytes, keptBytes, table } = shared;
		this.proxyPort = toPort(socket.address().port);
		this.listenAddress = target.address;
		this.family = servicePort.family;
		this.clock = context.clock;
		this.limits = limits;
		this.createSocket = createSocket;
		this.waitingBytes = waitingBytes;
		this.keptBytes = keptBytes;
		this.#shared = shared;
		this.#socket = socket;
		this.#servicePort = servicePort;
		this.#flows = table.createGroup();
		this.balancer = target.balancer ?? context.createBalancer(target.sibling?.balancer);
		this.balancer.update(servicePort.endpoints, servicePort.sessionAffinity);
		socket.on("message", (datagram, sender) => this.#onDatagram(datagram, sender));
	}

	get service(): string {
		return this.#servicePort.name;
	}

	update(servicePort: RelayedPort): void {
		this.#servicePort = servicePort;
		this.balancer.update(servicePort.endpoints, servicePort.sessionAffinity);
		// Answers that are under way still reach their clients; the next datagram of each moves it.
		for (const flow of this.#flows.flows()) {
			flow.endpointGone = !this.balancer.has(flow.endpointKey);
		}
	}

	failingEndpoints(): readonly string[] {
		return this.balancer.failing();
	}

	close(): void {
		if (this.#isClosed) return;
		this.#isClosed = true;
		this.#socket.close();
		for (const flow of Array.from(this.#flows.flows())) flow.end("stopped");
		this.#shared.onClose(this);
	}

	leadsBack(endpoint: Endpoint): boolean {
		return this.#shared.context.leadsBack("udp", endpoint);
	}

	onAnswer(flow: UdpFlow, datagram: Buffer): void {
		// The order of the table is that of lastActiveMs, which stands still without the endpoint.
		if (!flow.endpointGone) this.#flows.touch(flow.key);
		if (this.#socket.getSendQueueSize() + datagram.length > MAX_WAITING_ANSWER_BYTES) {
			this.onDrop("answer-queue-full");
			return;
		}
		try {
			this.#socket.sendTo(datagram, flow.client.sender, this.#onAnswerSent);
		} catch (error) {
			this.onDrop("answer-failed", errorCode(error));
		}
	}

	onDrop(reason: DropReason, code?: string): void {
		this.#shared.drops.drop(reason, this.service, code);
	}

	relieve(flow: UdpFlow): boolean {
		return this.#shared.table.evictOne(flow);
	}

	onEnd(flow: UdpFlow, record: ConnectionRecord): void {
		this.#flows.remove(flow);
		this.#shared.context.budget.give(1);
		this.#shared.context.hooks.onConnectionEnd(record);
	}

	redeliver(client: FlowClient, datagrams: readonly Buffer[]): void {
		for (const datagram of datagrams) {
			if (this.#isClosed) this.onDrop("flow-ended");
			else this.#deliver(client, this.#flows.touch(client.sender.key), datagram);
		}
	}

	#onDatagram(datagram: Buffer, sender: Sender): void {
		if (this.#isClosed) return;
		const flow = this.#flows.touch(sender.key);
		const client = flow?.client ?? toClient(sender);
		if (client === undefined) this.onDrop("bad-source");
		else this.#deliver(client, flow, datagram);
	}

	#deliver(client: FlowClient, flow: UdpFlow | undefined, datagram: Buffer): void {
		if (flow?.endpointGone === true) flow.end("endpoint-gone");
		if (flow === undefined || flow.isOver) {
			this.#begin(client, datagram);
		} else {
			flow.send(datagram);
		}
	}

	#begin(client: FlowClient, datagram: Buffer): void {
		const pick = this.balancer.pick({ clientAddress: client.address, tried: NONE_TRIED });
		if (pick === undefined) {
			this.onDrop("no-endpoint");
			return;
		}
		if (!this.#shared.takeDescriptor()) {
			this.onDrop("no-descriptor");
			return;
		}
		const { nextId, hooks } = this.#shared.context;
		const id = nextId();
		const flow = new UdpFlow(id, client, pick, this);
		hooks.onConnectionStart({
			id,
			protocol: "udp",
			service: this.service,
			clientAddress: client.address,
			clientPort: client.port,
		});
		flow.start(datagram);
		if (flow.isOver) return;
		this.#flows.add(flow);
		this.#shared.wake();
	}

	/** One function for all answers: it is called for each. */
	readonly #onAnswerSent = (error: Error | null): void => {
		if (error === null || this.#isClosed) return;
		const code = errorCode(error);
		this.onDrop(code === "EAGAIN" ? "answer-queue-full" : "answer-failed", code);
	};
}

/** @returns undefined for a source that cannot be answered: port 0 exists on the wire. */
function toClient(sender: Sender): FlowClient | undefined {
	const { address: written, port } = sender;
	const zone = written.indexOf("%");
	const address = parseIpAddress(zone === -1 ? written : written.slice(0, zone));
	return address === undefined || port === 0 ? undefined : { sender, address, port };
}
