import type { Socket } from "node:net";

import type { Balancer, Pick } from "../../balancing/pick.ts";
import { formatSocketAddress, type IpAddress, type IpFamily } from "../../services/address.ts";
import type { ConnectionEnd, ConnectionRecord } from "../../services/connection-record.ts";
import type { Clock } from "../../shared/clock.ts";
import { AttemptLog } from "../attempt-log.ts";
import type { LiveConnection } from "../engine.ts";
import type { Applicant } from "../tcp-admission.ts";
import type { Dial, DialResult } from "./dial.ts";
import { resetSocket } from "./reset-socket.ts";
import { Splice } from "./splice.ts";

/**
 * A try that this node could not even make is followed by a pause, at most this long: what lacks
 * (descriptors, ports, memory) comes back when other connections end.
 */
const MAX_LOCAL_PAUSE_MS = 250;

/** The client's side as it was accepted. */
export interface AcceptedClient {
	/** Not read yet. */
	readonly socket: Socket;
	readonly address: IpAddress;
	readonly port: number;
	/** The ServicePort's name at this moment. */
	readonly service: string;
	readonly family: IpFamily;
	readonly balancer: Balancer;
}

/** What a connection needs of its surroundings. */
export interface TcpConnectionHost {
	readonly clock: Clock;
	readonly dialTimeoutsMs: readonly number[];
	readonly halfCloseIdleMs: number;
	/** How long a connection to an endpoint that was removed may go on; undefined: until it ends. */
	readonly drainRemovedMs: number | undefined;
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
	readonly id: string;
	isAdmitted: boolean = false;
	readonly #client: AcceptedClient;
	readonly #host: TcpConnectionHost;
	readonly #attempts: AttemptLog;
	readonly #startedAtMs: number;
	readonly #beganMs: number;
	#state: "waiting" | "dialing" | "open" | "over" = "waiting";
	#pick: Pick | undefined;
	#stopDialing: () => void = () => {};
	#endpoint: Socket | undefined;
	#splice: Splice | undefined;
	#connectMs: number | undefined;
	#movedAtMs = 0;
	/** Since when its endpoint is none of the ServicePort's. */
	#removedSinceMs: number | undefined;

	constructor(id: string, client: AcceptedClient, host: TcpConnectionHost) {
		this.id = id;
		this.#client = client;
		this.#host = host;
		this.#attempts = new AttemptLog(host.clock);
		this.#startedAtMs = host.clock.wallMs();
		this.#beganMs = host.clock.monotonicMs();
		client.socket.on("error", () => {
			if (this.#state !== "open") this.end("client-gone");
		});
	}

	start(): void {
		this.#state = "dialing";
		// Reads into the socket's own buffer, up to its mark, without taking anything out of it.
		this.#client.socket.read(0);
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
		this.#attempts.end("abandoned", undefined);
		const record = this.#recordOf(end);
		this.#state = "over";
		if (end !== "closed") {
			resetSocket(this.#client.socket);
			if (this.#endpoint !== undefined) resetSocket(this.#endpoint);
		}
		if (stateBefore === "dialing") this.#host.onDialed();
		this.#host.onEnd(this, record);
	}

	/** Looks for what no event tells of. To be called about once a second. */
	sweep(): void {
		const splice = this.#splice;
		if (splice !== undefined && this.#isDrained()) {
			this.end("endpoint-removed");
			return;
		}
		if (splice === undefined || !(splice.isHalfClosed || splice.isHeldBack)) return;
		const nowMs = this.#host.clock.monotonicMs();
		if (splice.hasMoved() || !splice.isHalfClosed) this.#movedAtMs = nowMs;
		if (nowMs - this.#movedAtMs >= this.#host.halfCloseIdleMs) this.end("half-close-timeout");
		else splice.probe();
	}

	#isDrained(): boolean {
		const { drainRemovedMs, clock } = this.#host;
		const key = this.#pick?.endpoint.key;
		if (drainRemovedMs === undefined || key === undefined) return false;
		if (this.#client.balancer.has(key)) {
			this.#removedSinceMs = undefined;
			return false;
		}
		const nowMs = clock.monotonicMs();
		this.#removedSinceMs ??= nowMs;
		return nowMs - this.#removedSinceMs >= drainRemovedMs;
	}

	describe(): LiveConnection {
		const splice = this.#splice;
		return {
			id: this.id,
			protocol: "tcp",
			service: this.#client.service,
			client: formatSocketAddress(this.#client.address, this.#client.port),
			endpoint: this.#servedBy()?.key,
			startedAtMs: this.#startedAtMs,
			bytesIn: splice?.bytesIn ?? 0,
			bytesOut: splice?.bytesOut ?? 0,
			state: splice === undefined ? "dialing" : splice.isHalfClosed ? "half-closed" : "open",
		};
	}

	#dialNext(): void {
		const timeoutMs = this.#host.dialTimeoutsMs[this.#attempts.count];
		if (timeoutMs === undefined) {
			this.end(this.#attempts.failedLocally ? "overload" : "unreachable");
			return;
		}
		const { balancer, address } = this.#client;
		const pick = balancer.pick({ clientAddress: address, tried: this.#attempts.tried });
		if (pick === undefined) {
			this.end("no-endpoint");
			return;
		}
		this.#pick = pick;
		this.#attempts.begin(pick);
		this.#stopDialing = this.#host.dial(pick.endpoint, timeoutMs, (result) =>
			this.#onDialed(pick, timeoutMs, result),
		);
	}

	#onDialed(pick: Pick, timeoutMs: number, result: DialResult): void {
		if (result.outcome === "connected") {
			this.#attempts.end("connected", undefined);
			this.#open(pick, result.socket);
			return;
		}
		this.#attempts.end(result.outcome, result.errorCode);
		this.#client.balancer.failed(pick.endpoint, result.outcome);
		if (result.outcome !== "local-error") {
			this.#dialNext();
			return;
		}
		this.#host.onLocalError(result.errorCode);
		const pause = setTimeout(() => this.#dialNext(), Math.min(timeoutMs, MAX_LOCAL_PAUSE_MS));
		this.#stopDialing = () => clearTimeout(pause);
	}

	#open(pick: Pick, endpoint: Socket): void {
		this.#client.balancer.answered(pick.endpoint, this.#client.address);
		this.#state = "open";
		this.#connectMs = this.#host.clock.monotonicMs() - this.#beganMs;
		this.#endpoint = endpoint;
		this.#splice = new Splice(this.#client.socket, endpoint, (end) => this.end(end));
		this.#host.onDialed();
	}

	#servedBy(): Pick["endpoint"] | undefined {
		return this.#splice === undefined ? undefined : this.#pick?.endpoint;
	}

	#recordOf(end: ConnectionEnd): ConnectionRecord {
		const { clock } = this.#host;
		const endpoint = this.#servedBy();
		return {
			id: this.id,
			protocol: "tcp",
			family: this.#client.family,
			service: this.#client.service,
			client: formatSocketAddress(this.#client.address, this.#client.port),
			endpoint: endpoint?.key,
			podName: endpoint?.podName,
			attempts: this.#attempts.attempts,
			attemptCount: this.#attempts.count,
			affinity: endpoint === undefined ? undefined : this.#pick?.affinity,
			bytesIn: this.#splice?.bytesIn ?? 0,
			bytesOut: this.#splice?.bytesOut ?? 0,
			datagramsIn: undefined,
			datagramsOut: undefined,
			startedAtMs: this.#startedAtMs,
			durationMs: clock.monotonicMs() - this.#beganMs,
			connectMs: this.#connectMs,
			end,
		};
	}
}
