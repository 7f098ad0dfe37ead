import { ipFamilyOf, parseIpAddress } from "../../services/address.ts";
import {
	close,
	EAGAIN,
	EPOLLERR,
	EPOLLIN,
	getIntOption,
	getsockname,
	SO_ERROR,
	SOL_SOCKET,
	send,
} from "../../system/libc.ts";
import { systemError } from "../../system/system-error.ts";
import type {
	DatagramListener,
	DatagramSocket,
	SendCallback,
	Sender,
} from "../udp/datagram-socket.ts";
import type { CallOwner, QueuedOperation } from "./call-queue.ts";
import type { DatagramExchange } from "./datagram-exchange.ts";
import { IORING_OP } from "./io-ring.ts";
import type { Poller, PollHandler } from "./poller.ts";
import { SocketAddress } from "./socket-address.ts";
import { connectDatagramSocket } from "./udp-sockets.ts";

/** Told again and again while something is there: one call is read for each event, so that a flood holds up nobody else. */
export const UDP_EVENTS: number = EPOLLIN;
const NO_SOCKET = -1;

/** So many turns in a row with an event of a flow's socket, and many datagrams are read at a time. */
const MANY_AFTER_BUSY_TURNS = 8;

/** What sockets of one thread share. */
export interface UdpSocketHost {
	readonly poller: Poller;
	readonly exchange: DatagramExchange;
	/** Told of each descriptor that is opened here. */
	opened(fd: number): void;
}

/**
 * A datagram socket over system calls, as udp/ wants one: one that is bound already and that all clients
 * send to, or one that is yet to be connected to an endpoint.
 *
 * What it is told to send to clients goes out with others at the end of the turn.
 */
export class UdpSocket implements DatagramSocket, PollHandler, CallOwner {
	readonly #host: UdpSocketHost;
	/** True where all clients send to it. */
	readonly #isListener: boolean;
	/** Of the poller, when there was an event. */
	#lastTurn = -1;
	/** Turns in a row that had one. */
	#busyTurns = 0;
	#lastSender: Sender | undefined;
	#onSent: SendCallback = () => {};
	/** True while a datagram to the endpoint is queued. */
	#isSending = false;
	#fd: number;
	#onMessage: (datagram: Buffer, sender: Sender) => void = () => {};
	#onError: (error: Error) => void = () => {};
	#onConnect: () => void = () => {};

	/** @param fd of a bound socket that is polled already and stays its owner's; undefined: to be opened by {@link connect}. */
	constructor(host: UdpSocketHost, fd?: number) {
		this.#host = host;
		this.#isListener = fd !== undefined;
		this.#fd = fd ?? NO_SOCKET;
		if (fd !== undefined) host.poller.handOver(fd, this);
	}

	on(...[event, listener]: DatagramListener): void {
		if (event === "message") this.#onMessage = listener;
		else if (event === "error") this.#onError = listener;
		else if (event === "connect") this.#onConnect = listener;
	}

	bind(): never {
		throw new TypeError("Cannot bind here: the engine's thread binds");
	}

	/** Tells of it before it returns. @throws the system's error. */
	connect(port: number, address: string): void {
		const ip = parseIpAddress(address);
		if (ip === undefined) throw new TypeError(`Cannot connect to "${address}": no IP address`);
		const to = new SocketAddress().set(ipFamilyOf(ip), ip, port);
		const fd = connectDatagramSocket(to);
		if (fd < 0) throw systemError("connect", fd);
		const result = this.#host.poller.add(fd, UDP_EVENTS, this);
		if (result < 0) {
			close(fd);
			throw systemError("epoll_ctl", result);
		}
		this.#fd = fd;
		this.#host.opened(fd);
		this.#onConnect();
	}

	send(datagram: Buffer, onSent: SendCallback): void {
		this.#onSent = onSent;
		this.#isSending = true;
		if (this.#host.exchange.sendSoon(this.#fd, datagram, this)) return;
		this.#isSending = false;
		this.#tellSent(send(this.#fd, datagram, datagram.length));
	}

	sendTo(datagram: Buffer, to: Sender, onSent: SendCallback): void {
		this.#host.exchange.send(this.#fd, datagram, to, onSent);
	}

	/** The kernel takes a datagram or does not: none waits here. */
	getSendQueueSize(): number {
		return 0;
	}

	address(): { readonly address: string; readonly port: number } {
		const own = new SocketAddress();
		getsockname(this.#fd, own.bytes);
		return { address: own.address, port: own.port };
	}

	close(): void {
		const fd = this.#fd;
		if (fd === NO_SOCKET) return;
		this.#fd = NO_SOCKET;
		this.#host.exchange.forget(fd);
		this.#host.poller.closeLater(fd);
	}

	/** Hands the descriptor back to its owner: nothing is read from it any more. */
	release(): void {
		if (this.#fd === NO_SOCKET) return;
		this.#host.exchange.forget(this.#fd);
		this.#host.poller.remove(this.#fd);
		this.#fd = NO_SOCKET;
	}

	onEvents(fd: number, events: number): void {
		// A datagram that is queued must not go out after its error was taken from the socket by something else.
		if (this.#isSending) this.#host.exchange.settle();
		if (this.#fd !== fd) return;
		if ((events & EPOLLERR) !== 0) {
			const error = getIntOption(fd, SOL_SOCKET, SO_ERROR);
			if (error !== 0) this.#onError(systemError("recvmmsg", -Math.abs(error)));
		}
		if (this.#fd !== fd) return;
		if (this.#isListener || this.#mayHaveMore()) this.#receive(fd);
		else this.#host.exchange.receiveSingle(fd, this);
	}

	/** Where each turn has an event, more than one datagram seems to wait. */
	#mayHaveMore(): boolean {
		const { turns } = this.#host.poller;
		this.#busyTurns = this.#lastTurn === turns - 1 ? this.#busyTurns + 1 : 0;
		this.#lastTurn = turns;
		return this.#busyTurns >= MANY_AFTER_BUSY_TURNS;
	}

	onCall(operation: QueuedOperation, result: number, slot: number): void {
		if (operation !== IORING_OP.send) {
			this.#onSingle(result, slot);
			return;
		}
		this.#isSending = false;
		this.#tellSent(result);
	}

	#tellSent(sent: number): void {
		if (sent < 0) this.#onSent(systemError("send", sent), 0);
		else this.#onSent(null, sent);
	}

	#onSingle(result: number, slot: number): void {
		// It may have been closed by what came before.
		if (this.#fd === NO_SOCKET) return;
		if (result >= 0) {
			const { exchange } = this.#host;
			const datagram = exchange.takeSingle(slot, result);
			this.#lastSender = exchange.singleSender(slot, this.#lastSender);
			this.#onMessage(datagram, this.#lastSender);
		} else if (result !== -EAGAIN) {
			this.#onError(systemError("recvmsg", result));
		}
	}

	#receive(fd: number): void {
		const { exchange } = this.#host;
		const count = exchange.receive(fd);
		if (count < 2) this.#busyTurns = 0;
		if (count < 0 && count !== -EAGAIN) this.#onError(systemError("recvmmsg", count));
		for (let slot = 0; slot < count && this.#fd === fd; slot += 1) {
			const sender = exchange.sender(slot);
			exchange.settleBefore(sender);
			if (this.#fd === fd) this.#onMessage(exchange.datagram(slot), sender);
		}
	}
}
