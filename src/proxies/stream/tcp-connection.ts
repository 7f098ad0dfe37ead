import type { Socket } from "node:net";

import type { ConnectionEnd, ConnectionRecord } from "../../services/connection-record.ts";
import type { Clock } from "../../shared/clock.ts";
import type { LiveConnection } from "../engine.ts";
import type { TcpLimits } from "../listener.ts";
import type { Applicant } from "../tcp-admission.ts";
import { type TcpClient, TcpCourse } from "../tcp-course.ts";
import type { Dial, DialResult } from "./dial.ts";
import { resetSocket } from "./reset-socket.ts";
import { Splice } from "./splice.ts";

/** The client's side as it was accepted. */
export interface AcceptedClient extends TcpClient {
	/** Not read yet. */
	readonly socket: Socket;
}

/** What a connection needs of its surroundings. */
export interface TcpConnectionHost {
	readonly clock: Clock;
	readonly limits: TcpLimits;
	readonly dial: Dial;
	/** A try could not even be made. */
	onLocalError(code: string | undefined): void;
	/** The dialing that {@link TcpConnection.start} began is over, however. */
	onDialed(): void;
	/** Both sockets are closed or about to be. Called once. */
	onEnd(connection: TcpConnection, record: ConnectionRecord): void;
}

/**
 * One client's connection, from accept to the end of both legs.
 *
 * ```
 *  waiting ──start──► dialing ──an endpoint answers──► open ──► over
 *     │                  │ every try failed, client gone         ▲
 *     └──refuse──────────┴───────────────────────────────────────┘
 * ```
 *
 * While dialing, the client is read as far as its socket's own buffer goes, so that its reset is
 * seen and its first bytes and FIN are kept. They are relayed to the one endpoint that answered and
 * to no other; there is no retry after that.
 */
export class TcpConnection implements Applicant {
	isAdmitted: boolean = false;
	readonly #socket: Socket;
	readonly #host: TcpConnectionHost;
	readonly #course: TcpCourse;
	#state: "waiting" | "dialing" | "open" | "over" = "waiting";
	#stopDialing: () => void = () => {};
	#endpoint: Socket | undefined;
	#splice: Splice | undefined;

	constructor(id: string, client: AcceptedClient, host: TcpConnectionHost) {
		this.#socket = client.socket;
		this.#host = host;
		this.#course = new TcpCourse(id, client, host.limits, host.clock);
		client.socket.on("error", () => {
			if (this.#state !== "open") this.end("client-gone");
		});
	}

	start(): void {
		this.#state = "dialing";
		// Reads into the socket's own buffer, up to its mark, without taking anything out of it.
		this.#socket.read(0);
		this.#dialNext();
	}

	refuse(): void {
		this.end("overload");
	}

	/** Ends it now; unless it closed by itself, both peers see a reset. Idempotent. */
	end(end: ConnectionEnd): void {
		if (this.#state === "over") return;
		const stateBefore = this.#state;
		this.#stopDialing();
		const record = this.#course.end(end, this.#splice?.bytesIn ?? 0, this.#splice?.bytesOut ?? 0);
		this.#state = "over";
		if (end !== "closed") {
			resetSocket(this.#socket);
			if (this.#endpoint !== undefined) resetSocket(this.#endpoint);
		}
		if (stateBefore === "dialing") this.#host.onDialed();
		this.#host.onEnd(this, record);
	}

	/** Looks for what no event tells of. To be called about once a second. */
	sweep(): void {
		const splice = this.#splice;
		if (splice === undefined) return;
		if (this.#course.isDrained()) {
			this.end("endpoint-removed");
			return;
		}
		if (!(splice.isHalfClosed || splice.isHeldBack)) return;
		// One that is held back may be so for as long as it likes.
		const isSilent = this.#course.isSilent(splice.hasMoved() || !splice.isHalfClosed);
		if (isSilent) this.end("half-close-timeout");
		else splice.probe();
	}

	describe(): LiveConnection {
		const splice = this.#splice;
		return this.#course.describe(
			splice?.bytesIn ?? 0,
			splice?.bytesOut ?? 0,
			splice?.isHalfClosed === true,
		);
	}

	#dialNext(): void {
		const next = this.#course.next();
		if (typeof next === "string") {
			this.end(next);
			return;
		}
		this.#stopDialing = this.#host.dial(next, this.#course.timeoutMs, (result) =>
			this.#onDialed(result),
		);
	}

	#onDialed(result: DialResult): void {
		if (result.outcome === "connected") {
			this.#open(result.socket);
			return;
		}
		const pauseMs = this.#course.failed(result.outcome, result.errorCode);
		if (result.outcome === "local-error") this.#host.onLocalError(result.errorCode);
		if (pauseMs === 0) {
			this.#dialNext();
			return;
		}
		const pause = setTimeout(() => this.#dialNext(), pauseMs);
		this.#stopDialing = () => clearTimeout(pause);
	}

	#open(endpoint: Socket): void {
		this.#course.connected();
		this.#state = "open";
		this.#endpoint = endpoint;
		this.#splice = new Splice(this.#socket, endpoint, (end) => this.end(end));
		this.#host.onDialed();
	}
}
