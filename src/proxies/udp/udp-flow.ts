import type { Balancer, Pick } from "../../balancing/pick.ts";
import { formatSocketAddress, type IpAddress, type IpFamily } from "../../services/address.ts";
import type { ConnectionEnd, ConnectionRecord } from "../../services/connection-record.ts";
import type { Endpoint } from "../../services/service-port.ts";
import type { Clock } from "../../shared/clock.ts";
import { AttemptLog } from "../attempt-log.ts";
import { dialOutcomeOf } from "../dial-outcome.ts";
import type { DropReason } from "../drop-reason.ts";
import type { LiveConnection } from "../engine.ts";
import type { UdpLimits } from "../listener.ts";
import type { CreateDatagramSocket, Sender } from "./datagram-socket.ts";
import {
	EndpointSocket,
	type EndpointSocketFailure,
	type EndpointSocketOwner,
	udpOutcomeOf,
} from "./udp-endpoint-socket.ts";
import type { TableFlow } from "./udp-flow-table.ts";
import type { HeldBytes } from "./udp-held-bytes.ts";

/** Endpoints that one flow tries, as many as a TCP connection does by default. */
const MAX_ATTEMPTS = 4;

export interface FlowClient {
	/** Whom answers are sent to. */
	readonly sender: Sender;
	/** Canonical, without a zone. */
	readonly address: IpAddress;
	readonly port: number;
}

/** What a flow needs of its surroundings. */
export interface UdpFlowHost {
	readonly clock: Clock;
	readonly limits: UdpLimits;
	readonly balancer: Balancer;
	/** The ServicePort's name. */
	readonly service: string;
	readonly family: IpFamily;
	readonly createSocket: CreateDatagramSocket;
	/** See RelayContext. */
	leadsBack(endpoint: Endpoint): boolean;
	readonly waitingBytes: HeldBytes;
	readonly keptBytes: HeldBytes;

	/** Carries an answer to the client. */
	onAnswer(flow: UdpFlow, datagram: Buffer): void;
	onDrop(reason: DropReason, code?: string): void;
	/** Ends some other flow, so that its descriptor can be had; false when there is none. */
	relieve(flow: UdpFlow): boolean;
	/** Its socket is closed. Called once. */
	onEnd(flow: UdpFlow, record: ConnectionRecord): void;
	/** Datagrams that never left this node and that the ended flow cannot carry any more. */
	redeliver(client: FlowClient, datagrams: readonly Buffer[]): void;
}

/**
 * What one client address and port says to one ServicePort, and what it is answered.
 *
 * Has one socket to one endpoint at a time. As long as no answer ever came, an endpoint that
 * refuses is replaced within the flow, and what provably did not arrive is sent to the next one.
 * After the first answer the conversation belongs to that endpoint: if it goes, the flow ends, and
 * the client's next datagram begins a new one.
 */
export class UdpFlow implements TableFlow, EndpointSocketOwner {
	readonly id: string;
	readonly client: FlowClient;
	/** The endpoint was taken out of the ServicePort: answers may still come, nothing goes to it. */
	endpointGone: boolean = false;
	readonly #host: UdpFlowHost;
	readonly #startedAtMs: number;
	readonly #beganMs: number;
	readonly #attempts: AttemptLog;
	#pick: Pick;
	#socket: EndpointSocket | undefined;
	#isOver: boolean = false;
	#lastActiveMs: number;
	#awaitsAnswer: boolean = true;
	#wasRelieved: boolean = false;
	#connectMs: number | undefined;
	#bytesIn = 0;
	#bytesOut = 0;
	#datagramsIn = 0;
	#datagramsOut = 0;

	constructor(id: string, client: FlowClient, pick: Pick, host: UdpFlowHost) {
		this.id = id;
		this.client = client;
		this.#pick = pick;
		this.#host = host;
		this.#attempts = new AttemptLog(host.clock);
		this.#startedAtMs = host.clock.wallMs();
		this.#beganMs = host.clock.monotonicMs();
		this.#lastActiveMs = this.#beganMs;
	}

	get key(): string {
		return this.client.sender.key;
	}

	get service(): string {
		return this.#host.service;
	}

	get lastActiveMs(): number {
		return this.#lastActiveMs;
	}

	get isOver(): boolean {
		return this.#isOver;
	}

	get endpointKey(): string {
		return this.#pick.endpoint.key;
	}

	/** Begins with the client's first datagram. The flow may be over when this returns. */
	start(datagram: Buffer): void {
		this.#open(this.#pick, [datagram]);
	}

	/** A further datagram of the client. */
	send(datagram: Buffer): void {
		this.#lastActiveMs = this.#host.clock.monotonicMs();
		this.#awaitsAnswer = true;
		this.#socket?.send(datagram);
	}

	/** How the flow has to end for having been silent, or undefined while it may go on. */
	expiry(nowMs: number): ConnectionEnd | undefined {
		const { idleMs, firstAnswerMs } = this.#host.limits;
		// While the last word is the client's, an answer may be under way, be it the first or not.
		const limitMs = this.#awaitsAnswer ? Math.max(idleMs, firstAnswerMs) : idleMs;
		if (nowMs - this.#lastActiveMs < limitMs) return undefined;
		if (this.endpointGone) return "endpoint-gone";
		return this.#wasAnswered() ? "idle" : "unanswered";
	}

	/** Closes the socket. Does nothing when it is over. */
	end(end: ConnectionEnd): void {
		if (this.#isOver) return;
		const { balancer } = this.#host;
		if (end === "unanswered") {
			// An endpoint that never answers by its nature would stay under suspicion of its last
			// refusal for ever otherwise.
			balancer.unrefuted(this.#pick.endpoint, this.#attempts.beganMs);
		}
		const isOpen = this.#socket?.isOpen === true;
		// Of a UDP socket, "connected" says no more than that nobody has refused.
		this.#attempts.end(isOpen ? "connected" : "abandoned", undefined);
		this.#finish(end, isOpen);
	}

	describe(): LiveConnection {
		const isOpen = this.#socket?.isOpen === true;
		return {
			id: this.id,
			protocol: "udp",
			service: this.service,
			client: formatSocketAddress(this.client.address, this.client.port),
			endpoint: isOpen ? this.endpointKey : undefined,
			startedAtMs: this.#startedAtMs,
			bytesIn: this.#bytesIn,
			bytesOut: this.#bytesOut,
			state: isOpen ? "open" : "dialing",
		};
	}

	onOpen(): void {
		this.#connectMs = this.#host.clock.monotonicMs() - this.#beganMs;
	}

	onSent(bytes: number): void {
		this.#bytesIn += bytes;
		this.#datagramsIn += 1;
	}

	onAnswer(datagram: Buffer): void {
		if (!this.#wasAnswered()) {
			this.#host.balancer.answered(this.#pick.endpoint, this.client.address);
		}
		this.#bytesOut += datagram.length;
		this.#datagramsOut += 1;
		this.#awaitsAnswer = false;
		// An endpoint that was taken out must not keep the flow alive by talking on.
		if (!this.endpointGone) this.#lastActiveMs = this.#host.clock.monotonicMs();
		this.#host.onAnswer(this, datagram);
	}

	onDrop(reason: DropReason, code?: string): void {
		this.#host.onDrop(reason, code);
	}

	onFailure(failure: EndpointSocketFailure): void {
		this.#socket = undefined;
		const outcome = udpOutcomeOf(failure.code);
		this.#attempts.end(outcome, failure.code);
		this.#host.balancer.failed(this.#pick.endpoint, outcome);
		if (failure.refused !== undefined) {
			this.#bytesIn -= failure.refused.length;
			this.#datagramsIn -= 1;
		}
		if (!failure.wasOpen && dialOutcomeOf(failure.code) === "local-error") {
			this.#onScarcity(failure);
		} else {
			this.#replaceEndpoint(failure);
		}
	}

	#open(pick: Pick, datagrams: readonly Buffer[]): void {
		const { createSocket, waitingBytes, keptBytes } = this.#host;
		this.#pick = pick;
		this.endpointGone = false;
		this.#attempts.begin(pick);
		const { endpoint } = pick;
		const socket = new EndpointSocket({
			endpoint,
			owner: this,
			createSocket,
			leadsBack: (each) => this.#host.leadsBack(each),
			waitingBytes,
			keptBytes,
		});
		this.#socket = socket;
		for (const datagram of datagrams) socket.send(datagram);
		socket.open();
	}

	#onScarcity({ code, unsent }: EndpointSocketFailure): void {
		if (!this.#wasRelieved && this.#host.relieve(this)) {
			this.#wasRelieved = true;
			this.#open(this.#pick, unsent);
			return;
		}
		for (const _ of unsent) this.onDrop("no-descriptor", code);
		this.#finish("overload", false);
	}

	#replaceEndpoint({ code, wasOpen, sentCount, refused, unsent }: EndpointSocketFailure): void {
		const undelivered = refused === undefined ? unsent : [refused, ...unsent];
		// Without anything to send, the client's next datagram is early enough for a new endpoint.
		const next = this.#wasAnswered() || undelivered.length === 0 ? undefined : this.#pickUntried();
		if (next !== undefined) {
			this.#open(next, undelivered);
			return;
		}
		if (refused !== undefined) this.onDrop("refused", code);
		// Each datagram that was sent is one that will not be sent again: so this comes to an end.
		const mayRedeliver = sentCount > 0;
		if (!mayRedeliver) for (const _ of unsent) this.onDrop("refused", code);
		this.#finish(wasOpen ? "endpoint-gone" : "unreachable", this.#wasAnswered());
		if (mayRedeliver && unsent.length > 0) this.#host.redeliver(this.client, unsent);
	}

	#pickUntried(): Pick | undefined {
		const { count, tried } = this.#attempts;
		if (count >= MAX_ATTEMPTS) return undefined;
		const pick = this.#host.balancer.pick({ clientAddress: this.client.address, tried });
		return pick === undefined || tried.has(pick.endpoint.key) ? undefined : pick;
	}

	#wasAnswered(): boolean {
		return this.#datagramsOut > 0;
	}

	#finish(end: ConnectionEnd, wasServed: boolean): void {
		this.#isOver = true;
		this.#socket?.close();
		this.#socket = undefined;
		this.#host.onEnd(this, this.#recordOf(end, wasServed));
	}

	#recordOf(end: ConnectionEnd, wasServed: boolean): ConnectionRecord {
		const { endpoint, affinity } = this.#pick;
		return {
			id: this.id,
			protocol: "udp",
			family: this.#host.family,
			service: this.service,
			client: formatSocketAddress(this.client.address, this.client.port),
			endpoint: wasServed ? endpoint.key : undefined,
			podName: wasServed ? endpoint.podName : undefined,
			attempts: this.#attempts.attempts,
			attemptCount: this.#attempts.count,
			affinity: wasServed ? affinity : undefined,
			bytesIn: this.#bytesIn,
			bytesOut: this.#bytesOut,
			datagramsIn: this.#datagramsIn,
			datagramsOut: this.#datagramsOut,
			startedAtMs: this.#startedAtMs,
			durationMs: this.#host.clock.monotonicMs() - this.#beganMs,
			connectMs: wasServed ? this.#connectMs : undefined,
			end,
		};
	}
}
