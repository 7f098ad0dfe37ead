import { ipFamilyOf, parseIpAddress } from "../../services/address.ts";
import type { Endpoint } from "../../services/service-port.ts";
import { errorCode } from "../../shared/errors.ts";
import type { DropReason } from "../drop-reason.ts";
import type { CreateDatagramSocket, DatagramSocket, Sender } from "./datagram-socket.ts";
import type { HeldBytes } from "./udp-held-bytes.ts";

/** Datagrams that may wait in one flow: what a client sends in one go. */
const MAX_WAITING = 16;

/** Four of the biggest. */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Errors that tell of the endpoint, and what: from ICMP on a connected socket, or no route. All
 * others tell of the one datagram or of this node.
 */
const ENDPOINT_ERRORS: Readonly<Record<string, "refused" | "unreachable">> = {
	ECONNREFUSED: "refused",
	ENOPROTOOPT: "refused",
	// Ours: the endpoint leads back to us.
	ELOOP: "refused",
	EHOSTUNREACH: "unreachable",
	ENETUNREACH: "unreachable",
	EHOSTDOWN: "unreachable",
	ENETDOWN: "unreachable",
};

/** What a failure of a connected UDP socket says of the endpoint. */
export function udpOutcomeOf(code: string | undefined): "refused" | "unreachable" | "local-error" {
	return ENDPOINT_ERRORS[code ?? ""] ?? "local-error";
}

/** Who is told what happens; called from within the calls and events of the socket. */
export interface EndpointSocketOwner {
	/** Connected: datagrams go out from now on. */
	onOpen(): void;
	onAnswer(datagram: Buffer): void;
	/** The kernel has taken a datagram of that many bytes. */
	onSent(bytes: number): void;
	onDrop(reason: DropReason, code?: string): void;
	/** The socket cannot serve any more, and is closed. The last call. */
	onFailure(failure: EndpointSocketFailure): void;
}

export interface EndpointSocketFailure {
	readonly code: string | undefined;
	/** False: it could not even be connected. */
	readonly wasOpen: boolean;
	/** Datagrams that the kernel had taken. */
	readonly sentCount: number;
	/** The one that was sent and is known not to have arrived. */
	readonly refused: Buffer | undefined;
	/** Those that never left this node, in order. */
	readonly unsent: readonly Buffer[];
}

export interface EndpointSocketOptions {
	readonly endpoint: Endpoint;
	readonly owner: EndpointSocketOwner;
	readonly createSocket: CreateDatagramSocket;
	/** See RelayContext. */
	leadsBack(endpoint: Endpoint): boolean;
	/** Datagrams that wait for the kernel, over all flows. */
	readonly waitingBytes: HeldBytes;
	/** Datagrams kept to be sent elsewhere if they are refused, over all flows. */
	readonly keptBytes: HeldBytes;
}

/**
 * The connected socket of one flow to one endpoint.
 *
 * ```
 *  opening ──connected──► open ──close()──► closed
 *     └──────────failure────┴──────────────────▲
 * ```
 *
 * Hands the kernel one datagram at a time, so that a failed send is known to be that datagram's;
 * what comes meanwhile, or before the socket is connected, waits in order, bounded. A socket with a
 * pending ICMP error reports it at the next send *instead of* sending, so that datagram never left.
 */
export class EndpointSocket {
	readonly endpoint: Endpoint;
	readonly #owner: EndpointSocketOwner;
	readonly #leadsBack: boolean;
	readonly #waitingBytes: HeldBytes;
	readonly #keptBytes: HeldBytes;
	readonly #socket: DatagramSocket;
	#state: "opening" | "open" | "closed" = "opening";
	#waiting: Buffer[] = [];
	#ownWaitingBytes = 0;
	#sending: Buffer | undefined;
	#sentCount = 0;
	/** The first datagram, while it is the only one and has no answer: a refusal can only mean it. */
	#lone: Buffer | undefined;

	constructor(options: EndpointSocketOptions) {
		this.endpoint = options.endpoint;
		this.#owner = options.owner;
		this.#leadsBack = options.leadsBack(options.endpoint);
		this.#waitingBytes = options.waitingBytes;
		this.#keptBytes = options.keptBytes;
		this.#socket = options.createSocket(ipFamilyOf(options.endpoint.address), "flow");
		this.#socket.on("error", (error) => this.#onError(error));
		this.#socket.on("message", (datagram, sender) => this.#onMessage(datagram, sender));
		this.#socket.on("connect", () => this.#onConnect());
	}

	get isOpen(): boolean {
		return this.#state === "open";
	}

	/** Connects; failure may be told before this returns. */
	open(): void {
		if (this.#leadsBack) {
			this.#fail("ELOOP");
			return;
		}
		try {
			this.#socket.connect(this.endpoint.port, this.endpoint.address);
		} catch (error) {
			this.#fail(errorCode(error));
		}
	}

	/** Sends the datagram, or keeps it until it can be sent. */
	send(datagram: Buffer): void {
		if (this.#state === "open" && this.#sending === undefined) this.#transmit(datagram);
		else if (this.#state !== "closed") this.#wait(datagram);
	}

	/** Idempotent. What the kernel has not taken yet is dropped. */
	close(): void {
		if (this.#state === "closed") return;
		const unsentCount = this.#unsent().length;
		this.#close();
		for (let count = unsentCount; count > 0; count -= 1) this.#owner.onDrop("flow-ended");
	}

	#transmit(datagram: Buffer): void {
		this.#sending = datagram;
		try {
			this.#socket.send(datagram, this.#onSent);
		} catch (error) {
			this.#onSent(error instanceof Error ? error : new Error("unknown", { cause: error }), 0);
		}
	}

	/** One function for all sends: it is called for each datagram. */
	readonly #onSent = (error: Error | null, bytes: number): void => {
		if (this.#state === "closed") return;
		const code = error === null ? undefined : errorCode(error);
		if (udpOutcomeOf(code) !== "local-error") {
			this.#fail(code);
			return;
		}
		const datagram = this.#sending;
		this.#sending = undefined;
		if (error === null) {
			this.#count(datagram);
			this.#owner.onSent(bytes);
		} else {
			this.#owner.onDrop(code === "EAGAIN" ? "queue-full" : "send-failed", code);
		}
		const next = this.#takeWaiting();
		if (next !== undefined) this.#transmit(next);
	};

	#count(datagram: Buffer | undefined): void {
		this.#sentCount += 1;
		if (this.#sentCount > 1) this.#forgetLone();
		else if (datagram !== undefined && this.#keptBytes.tryHold(datagram.length)) {
			// A copy: sockets may use the memory of a datagram again as soon as it has been told.
			this.#lone = Buffer.from(datagram);
		}
	}

	#onConnect(): void {
		if (this.#state !== "opening") return;
		// Nobody has that port, or it could not be ours: see dial.ts.
		const { address, port } = this.#socket.address();
		if (port === this.endpoint.port && address === this.endpoint.address) {
			this.#fail("ECONNREFUSED");
			return;
		}
		this.#state = "open";
		this.#owner.onOpen();
		const next = this.#takeWaiting();
		if (next !== undefined) this.#transmit(next);
	}

	#onMessage(datagram: Buffer, sender: Sender): void {
		if (this.#state === "closed") return;
		if (this.#state !== "open" || !this.#isEndpoint(sender)) {
			this.#owner.onDrop("foreign-sender");
			return;
		}
		this.#forgetLone();
		this.#owner.onAnswer(datagram);
	}

	/**
	 * Between bind and connect the socket takes datagrams from anybody, and they are still read
	 * after the connect: a stranger who hits that moment must not answer for the endpoint.
	 */
	#isEndpoint({ address, port }: Sender): boolean {
		return (
			port === this.endpoint.port &&
			(address === this.endpoint.address || parseIpAddress(address) === this.endpoint.address)
		);
	}

	#onError(error: Error): void {
		this.#fail(errorCode(error));
	}

	#fail(code: string | undefined): void {
		if (this.#state === "closed") return;
		const failure: EndpointSocketFailure = {
			code,
			wasOpen: this.#state === "open",
			sentCount: this.#sentCount,
			refused: udpOutcomeOf(code) === "local-error" ? undefined : this.#lone,
			unsent: this.#unsent(),
		};
		this.#close();
		this.#owner.onFailure(failure);
	}

	#unsent(): readonly Buffer[] {
		return this.#sending === undefined ? this.#waiting : [this.#sending, ...this.#waiting];
	}

	#wait(datagram: Buffer): void {
		const fits =
			this.#waiting.length < MAX_WAITING &&
			this.#ownWaitingBytes + datagram.length <= MAX_WAITING_BYTES &&
			this.#waitingBytes.tryHold(datagram.length);
		if (!fits) {
			this.#owner.onDrop("queue-full");
			return;
		}
		this.#waiting.push(datagram);
		this.#ownWaitingBytes += datagram.length;
	}

	#takeWaiting(): Buffer | undefined {
		const datagram = this.#waiting.shift();
		if (datagram === undefined) return undefined;
		this.#ownWaitingBytes -= datagram.length;
		this.#waitingBytes.release(datagram.length);
		return datagram;
	}

	#forgetLone(): void {
		if (this.#lone === undefined) return;
		this.#keptBytes.release(this.#lone.length);
		this.#lone = undefined;
	}

	#close(): void {
		this.#state = "closed";
		this.#forgetLone();
		this.#waitingBytes.release(this.#ownWaitingBytes);
		this.#ownWaitingBytes = 0;
		this.#waiting = [];
		this.#sending = undefined;
		this.#socket.close();
	}
}
