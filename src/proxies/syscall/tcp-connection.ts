import type { ConnectionEnd, ConnectionRecord } from "../../services/connection-record.ts";
import type { Endpoint } from "../../services/service-port.ts";
import type { Clock } from "../../shared/clock.ts";
import {
	EPOLLERR,
	EPOLLHUP,
	EPOLLIN,
	EPOLLOUT,
	EPOLLPRI,
	EPOLLRDHUP,
	getIntOption,
	SO_ERROR,
	SOL_SOCKET,
	setResetOnClose,
} from "../../system/libc.ts";
import { codeOf } from "../../system/system-error.ts";
import { type BrokenEnd, brokenEnd } from "../broken-end.ts";
import { dialOutcomeOf } from "../dial-outcome.ts";
import type { LiveConnection } from "../engine.ts";
import type { TcpLimits } from "../listener.ts";
import type { Applicant } from "../tcp-admission.ts";
import { type TcpClient, TcpCourse } from "../tcp-course.ts";
import { BytePath, type PathMeans } from "./byte-path.ts";
import type { Deadline } from "./deadlines.ts";
import type { LatePollHandler } from "./poller.ts";
import { setKeepalive } from "./tcp-sockets.ts";

/** The client's side as it was accepted. */
export interface AcceptedClient extends TcpClient {
	readonly fd: number;
}

/** A dial that was begun: the socket, or why there is none. */
export type Dialed =
	| { readonly fd: number; readonly code?: undefined }
	| { readonly fd?: undefined; readonly code: string };

/** What a connection needs of its surroundings. */
export interface TcpConnectionHost {
	readonly clock: Clock;
	readonly limits: TcpLimits;
	readonly means: PathMeans;
	/**
	 * Begins to connect; events of the socket are told to the connection.
	 *
	 * @param hasBytes that the client has sent something.
	 */
	dial(endpoint: Endpoint, connection: TcpConnection, hasBytes: boolean): Dialed;
	/** True where both ends of a connected socket are that socket. */
	isConnectedToItself(fd: number, endpoint: Endpoint): boolean;
	/** Of the client's or endpoint's socket, which gets no event any more. */
	close(fd: number): void;
	after(durationMs: number, run: () => void): Deadline;
	/** It has something to do: it is to be asked to begin with others, and then to go on. */
	goOnSoon(connection: TcpConnection): void;
	onLocalError(code: string): void;
	onDialed(): void;
	onEnd(connection: TcpConnection, record: ConnectionRecord): void;
}

const NO_SOCKET = -1;

/**
 * One client's connection, from accept to the end of both legs; the same states and rules as
 * stream/tcp-connection.ts, over bare descriptors.
 *
 * While dialing, nothing of the client is read: its bytes and FIN wait in the kernel, and its reset is
 * an event.
 */
export class TcpConnection implements Applicant, LatePollHandler {
	isAdmitted: boolean = false;
	readonly #clientFd: number;
	readonly #host: TcpConnectionHost;
	readonly #course: TcpCourse;
	#state: "waiting" | "dialing" | "open" | "over" = "waiting";
	#endpointFd = NO_SOCKET;
	#deadline: Deadline | undefined;
	/** Of the client, before there is a path to read it. */
	#clientEvents = 0;
	#in: BytePath | undefined;
	#out: BytePath | undefined;
	/** When it was looked at the last time. */
	#movedBytes = -1;
	#isKeptAlive = false;
	/** True while the host has been asked to go on with it: it keeps account of that itself. */
	isQueued = false;
	/** Where the host has it. */
	place = -1;

	constructor(id: string, client: AcceptedClient, host: TcpConnectionHost) {
		this.#clientFd = client.fd;
		this.#host = host;
		this.#course = new TcpCourse(id, client, host.limits, host.clock);
	}

	get isOver(): boolean {
		return this.#state === "over";
	}

	start(): void {
		this.#state = "dialing";
		this.#dialNext();
	}

	refuse(): void {
		this.end("overload");
	}

	onEvents(fd: number, events: number): void {
		if (this.#state === "over") return;
		if (this.#state === "open") {
			this.#onOpenEvents(fd, events);
		} else if (fd !== this.#clientFd) {
			this.#onDialEvents(events);
		} else {
			this.#clientEvents |= events;
			if ((events & (EPOLLERR | EPOLLHUP)) !== 0) this.end("client-gone");
		}
	}

	onNotPolled(fd: number, result: number): void {
		const code = codeOf(result);
		if (this.#state === "over") return;
		if (fd === this.#endpointFd) {
			this.#failDial(code);
			return;
		}
		this.#host.onLocalError(code);
		this.end("overload");
	}

	/** Queues what is to be read before it goes on. */
	begin(): void {
		if (this.#state !== "open") return;
		this.#in?.begin();
		this.#out?.begin();
	}

	/** Moves what can be moved, both ways. */
	goOn(): void {
		const input = this.#in;
		const output = this.#out;
		if (this.#state !== "open" || input === undefined || output === undefined) return;
		const isMore = this.#pump(input, output, "client", "endpoint");
		if (this.#state !== "open") return;
		const isMoreBack = this.#pump(output, input, "endpoint", "client");
		if (this.#state !== "open") return;
		if (input.isOver && output.isOver) this.end("closed");
		else if (isMore || isMoreBack) this.#host.goOnSoon(this);
	}

	/** Ends it now; unless it closed by itself, both peers see a reset. Idempotent. */
	end(end: ConnectionEnd): void {
		if (this.#state === "over") return;
		const stateBefore = this.#state;
		this.#deadline?.cancel();
		const record = this.#course.end(end, this.#in?.bytes ?? 0, this.#out?.bytes ?? 0);
		this.#state = "over";
		this.#in?.release();
		this.#out?.release();
		this.#close(this.#clientFd, end === "closed");
		if (this.#endpointFd !== NO_SOCKET) this.#close(this.#endpointFd, end === "closed");
		if (stateBefore === "dialing") this.#host.onDialed();
		this.#host.onEnd(this, record);
	}

	/** Looks for what no event tells of. To be called about once a second. */
	sweep(): void {
		this.#keepAlive();
		const input = this.#in;
		const output = this.#out;
		if (this.#state !== "open" || input === undefined || output === undefined) return;
		if (this.#course.isDrained()) {
			this.end("endpoint-removed");
			return;
		}
		if (!this.#isHalfClosed()) return;
		const bytes = input.bytes + output.bytes;
		const hasMoved = bytes !== this.#movedBytes;
		this.#movedBytes = bytes;
		if (this.#course.isSilent(hasMoved)) this.end("half-close-timeout");
	}

	describe(): LiveConnection {
		return this.#course.describe(this.#in?.bytes ?? 0, this.#out?.bytes ?? 0, this.#isHalfClosed());
	}

	/** Most connections have ended before they are swept for the first time. */
	#keepAlive(): void {
		if (this.#isKeptAlive || this.#state !== "open") return;
		this.#isKeptAlive = true;
		setKeepalive(this.#endpointFd);
	}

	#onOpenEvents(fd: number, events: number): void {
		const isClient = fd === this.#clientFd;
		const from = isClient ? this.#in : this.#out;
		const to = isClient ? this.#out : this.#in;
		if (from === undefined || to === undefined) return;
		note(events, from, to);
		const code = (events & EPOLLERR) === 0 ? undefined : errorOf(fd);
		if (code === undefined) this.#host.goOnSoon(this);
		else this.end(brokenEnd(isClient ? "client" : "endpoint", code));
	}

	/** @returns whether there is more to do. */
	#pump(
		path: BytePath,
		other: BytePath,
		from: "client" | "endpoint",
		to: "client" | "endpoint",
	): boolean {
		switch (path.pump(other.isOver)) {
			case "read-failed":
				this.end(this.#broken(from, path.failure));
				return false;
			case "write-failed":
				this.end(this.#broken(to, path.failure));
				return false;
			case "more":
				return true;
			case "waits":
			case "over":
				return false;
		}
	}

	#broken(side: "client" | "endpoint", failure: number): BrokenEnd {
		return brokenEnd(side, codeOf(failure));
	}

	#dialNext(): void {
		const next = this.#course.next();
		if (typeof next === "string") {
			this.end(next);
			return;
		}
		const { fd, code } = this.#host.dial(next, this, (this.#clientEvents & EPOLLIN) !== 0);
		if (fd === undefined) {
			// Not at once: a client whose endpoints all fail so must not hold up the others.
			this.#deadline = this.#host.after(0, () => this.#failDial(code));
			return;
		}
		this.#endpointFd = fd;
		this.#deadline = this.#host.after(this.#course.timeoutMs, () => this.#failDial(undefined));
	}

	#onDialEvents(events: number): void {
		const { endpoint } = this.#course;
		if (endpoint === undefined || (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return;
		const code = (events & (EPOLLERR | EPOLLHUP)) === 0 ? undefined : errorOf(this.#endpointFd);
		if (code !== undefined) {
			this.#failDial(code);
			return;
		}
		if (this.#host.isConnectedToItself(this.#endpointFd, endpoint)) {
			setResetOnClose(this.#endpointFd);
			this.#failDial("ECONNREFUSED");
			return;
		}
		this.#open(events);
	}

	/** @param code undefined for a timeout of ours. */
	#failDial(code: string | undefined): void {
		if (this.#state !== "dialing") return;
		this.#deadline?.cancel();
		if (this.#endpointFd !== NO_SOCKET) this.#host.close(this.#endpointFd);
		this.#endpointFd = NO_SOCKET;
		const outcome = code === undefined ? "timeout" : dialOutcomeOf(code);
		const pauseMs = this.#course.failed(outcome, code);
		if (outcome === "local-error" && code !== undefined) this.#host.onLocalError(code);
		if (pauseMs === 0) this.#dialNext();
		else this.#deadline = this.#host.after(pauseMs, () => this.#dialNext());
	}

	/** @param events of the endpoint's socket: it may have said something, or its end, by now. */
	#open(events: number): void {
		this.#deadline?.cancel();
		this.#course.connected();
		this.#state = "open";
		const { means } = this.#host;
		this.#in = new BytePath(this.#clientFd, this.#endpointFd, false, means);
		this.#out = new BytePath(this.#endpointFd, this.#clientFd, true, means);
		this.#in.isReadable = (this.#clientEvents & (EPOLLIN | EPOLLRDHUP)) !== 0;
		this.#in.hasHungUp = (this.#clientEvents & EPOLLRDHUP) !== 0;
		this.#in.isUrgent = (this.#clientEvents & EPOLLPRI) !== 0;
		this.#host.onDialed();
		this.#onOpenEvents(this.#endpointFd, events);
	}

	#isHalfClosed(): boolean {
		return this.#in?.isReadEnded === true || this.#out?.isReadEnded === true;
	}

	#close(fd: number, isInOrder: boolean): void {
		if (!isInOrder) setResetOnClose(fd);
		this.#host.close(fd);
	}
}

/** What events of one side say: of the path that reads from it, and of the one that writes to it. */
function note(events: number, from: BytePath, to: BytePath): void {
	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) !== 0) from.isReadable = true;
	if ((events & (EPOLLRDHUP | EPOLLHUP)) !== 0) from.hasHungUp = true;
	if ((events & EPOLLPRI) !== 0) from.isUrgent = true;
	if ((events & EPOLLOUT) !== 0) to.isWritable = true;
}

/** The code of a socket's pending error, which is taken from it; undefined when there is none. */
function errorOf(fd: number): string | undefined {
	const error = getIntOption(fd, SOL_SOCKET, SO_ERROR);
	return error === 0 ? undefined : codeOf(-Math.abs(error));
}
