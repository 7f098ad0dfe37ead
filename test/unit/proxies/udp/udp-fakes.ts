import { createBalancer } from "../../../../src/balancing/balancer.ts";
import { DescriptorBudget } from "../../../../src/proxies/descriptor-budget.ts";
import type { UdpLimits } from "../../../../src/proxies/listener.ts";
import { repeat } from "../../../../src/proxies/repeat.ts";
import type {
	CreateDatagramSocket,
	DatagramListener,
	DatagramSocket,
	SendCallback,
	Sender,
} from "../../../../src/proxies/udp/datagram-socket.ts";
import { createUdpRelay } from "../../../../src/proxies/udp/udp-relay.ts";
import type { UdpFault } from "../../../../src/proxies/udp-faults.ts";
import type { ConnectionRecord } from "../../../../src/services/connection-record.ts";
import type { ServicePort } from "../../../../src/services/service-port.ts";

export interface FakeSend {
	readonly text: string;
	readonly to: string;
	/** Tells the sender what the kernel said; once. */
	complete(code?: string): void;
}

export function systemError(code: string): Error {
	return Object.assign(new Error(code), { code });
}

type OnMessage = (datagram: Buffer, sender: Sender) => void;
type OnError = (error: Error) => void;

/** A dgram socket of which the test is the kernel. */
export class FakeSocket implements DatagramSocket {
	readonly purpose: "listener" | "flow";
	/** "10.2.1.2:8080" once it is connected or about to be. */
	peer: string | undefined;
	closeCount = 0;
	/** Sends that the kernel has said nothing of yet. */
	pending: FakeSend[] = [];
	/** Texts that the kernel took, with where they went. */
	readonly taken: { readonly text: string; readonly to: string }[] = [];
	queueSize = 0;
	/** What `send` throws. */
	sendThrows: Error | undefined;
	readonly #net: FakeNet;
	readonly #onMessage: OnMessage[] = [];
	readonly #onError: OnError[] = [];
	readonly #onReady: (() => void)[] = [];

	constructor(net: FakeNet, purpose: "listener" | "flow") {
		this.#net = net;
		this.purpose = purpose;
	}

	get isOpen(): boolean {
		return this.closeCount === 0;
	}

	on(...[event, listener]: DatagramListener): void {
		if (event === "message") this.#onMessage.push(listener);
		else if (event === "error") this.#onError.push(listener);
		else this.#onReady.push(listener);
	}

	bind(): void {
		const code = this.#net.takeFailure("bind");
		if (code === undefined) this.ready();
		else this.fail(code);
	}

	connect(port: number, address: string): void {
		this.peer = `${address}:${port}`;
		const code = this.#net.takeFailure("connect");
		if (code !== undefined) this.fail(code);
		else if (this.#net.connectsAtOnce) this.ready();
	}

	send(datagram: Buffer, onSent: SendCallback): void {
		this.#take(this.peer ?? "", datagram, onSent);
	}

	sendTo(datagram: Buffer, { address, port }: Sender, onSent: SendCallback): void {
		this.#take(`${address}:${port}`, datagram, onSent);
	}

	#take(to: string, datagram: Buffer, onSent: SendCallback): void {
		if (this.sendThrows !== undefined) throw this.sendThrows;
		if (!this.isOpen) throw new Error("Not running");
		const send: FakeSend = {
			text: datagram.toString(),
			to,
			complete: (code) => {
				this.pending = this.pending.filter((each) => each !== send);
				if (code === undefined) this.taken.push({ text: send.text, to: send.to });
				onSent(code === undefined ? null : systemError(code), datagram.length);
			},
		};
		this.pending.push(send);
		if (this.#net.sendsAtOnce) this.#net.later(() => send.complete(this.#net.takeFailure("send")));
	}

	getSendQueueSize(): number {
		return this.queueSize;
	}

	address(): { readonly address: string; readonly port: number } {
		return this.#net.localAddress;
	}

	close(): void {
		this.closeCount += 1;
	}

	ready(): void {
		for (const listener of this.#onReady) listener();
	}

	fail(code: string): void {
		for (const listener of this.#onError) listener(systemError(code));
	}

	receive(text: string | Buffer, address: string, port: number): void {
		const datagram = Buffer.from(text);
		const sender: Sender = { key: `${address}:${port}`, address, port };
		for (const listener of this.#onMessage) listener(datagram, sender);
		this.#net.settle();
	}

	/** An answer of the endpoint that it is connected to. */
	answer(text: string): void {
		const colon = this.peer?.lastIndexOf(":") ?? -1;
		this.receive(text, this.peer?.slice(0, colon) ?? "", Number(this.peer?.slice(colon + 1)));
	}
}

/** All sockets of one relay. */
export class FakeNet {
	readonly sockets: FakeSocket[] = [];
	connectsAtOnce: boolean = true;
	sendsAtOnce: boolean = true;
	/** Of each socket that is asked. */
	localAddress = { address: "192.168.0.1", port: 40_000 };
	readonly #failures: { readonly call: string; readonly code: string }[] = [];
	readonly #later: (() => void)[] = [];

	readonly create: CreateDatagramSocket = (_family, purpose) => {
		const socket = new FakeSocket(this, purpose);
		this.sockets.push(socket);
		return socket;
	};

	get flows(): FakeSocket[] {
		return this.sockets.filter(({ purpose }) => purpose === "flow");
	}

	get openFlows(): FakeSocket[] {
		return this.flows.filter(({ isOpen }) => isOpen);
	}

	/** The socket of the newest flow. */
	get newest(): FakeSocket {
		const newest = this.flows.at(-1);
		if (newest === undefined) throw new Error("There is no flow");
		return newest;
	}

	/** The next call of that kind fails so; several: in that order. */
	failNext(call: "bind" | "connect" | "send", code: string): void {
		this.#failures.push({ call, code });
	}

	takeFailure(call: string): string | undefined {
		const index = this.#failures.findIndex((failure) => failure.call === call);
		return index === -1 ? undefined : this.#failures.splice(index, 1)[0]?.code;
	}

	/** As the tick queue does: after the call that caused it. */
	later(action: () => void): void {
		this.#later.push(action);
	}

	settle(): void {
		for (let next = this.#later.shift(); next !== undefined; next = this.#later.shift()) next();
	}
}

export interface RelayParts {
	readonly limits?: Partial<UdpLimits>;
	readonly descriptors?: number;
}

/** A relay on fake sockets and a clock that stands still, with what it told. */
export function aUdpRelay({ limits = {}, descriptors = 1_000 }: RelayParts = {}) {
	const net = new FakeNet();
	const clock = { nowMs: 1_000_000, monotonicMs: () => clock.nowMs, wallMs: () => clock.nowMs };
	const records: ConnectionRecord[] = [];
	const counts = { starts: 0, ids: 0 };
	const faults: UdpFault[] = [];
	const budget = new DescriptorBudget(descriptors);
	const relay = createUdpRelay(
		{
			hooks: {
				onConnectionEnd: (record) => records.push(record),
				onConnectionStart: () => {
					counts.starts += 1;
				},
			},
			clock,
			onUdpFault: (fault) => faults.push(fault),
			repeat,
			leadsBack: () => false,
			createBalancer: () => createBalancer({ now: () => clock.nowMs, random: () => 0 }),
			nextId: () => {
				counts.ids += 1;
				return `${counts.ids}`;
			},
			budget,
		},
		{ idleMs: 30_000, firstAnswerMs: 5_000, maxFlows: 100, ...limits },
		net.create,
	);
	return { relay, net, clock, records, counts, faults, budget };
}

/** The relay with one listener. `receive` is a datagram of client 10.1.0.2. */
export async function aUdpListener(servicePort: ServicePort, parts: RelayParts = {}) {
	const lab = aUdpRelay(parts);
	const listener = await lab.relay.open(servicePort, { address: undefined, port: 0 });
	const [socket] = lab.net.sockets;
	if (socket === undefined) throw new Error("No socket was made");
	return {
		...lab,
		listener,
		socket,
		receive: (text: string | Buffer, port = 4_000, address = "10.1.0.2") => {
			socket.receive(text, address, port);
		},
	};
}
