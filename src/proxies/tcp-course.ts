import type { Balancer, Pick } from "../balancing/pick.ts";
import { formatSocketAddress, type IpAddress } from "../services/address.ts";
import type {
	ConnectionEnd,
	ConnectionRecord,
	DialOutcome,
} from "../services/connection-record.ts";
import type { Endpoint } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import { AttemptLog } from "./attempt-log.ts";
import type { LiveConnection } from "./engine.ts";
import type { RelayedPort, TcpLimits } from "./listener.ts";

/**
 * A try that this node could not even make is followed by a pause, at most this long: what lacks
 * (descriptors, ports, memory) comes back when other connections end.
 */
const MAX_LOCAL_PAUSE_MS = 250;

/** Who has connected, and to what. */
export interface TcpClient {
	readonly address: IpAddress;
	readonly port: number;
	/** As it was when the client was accepted. */
	readonly servicePort: RelayedPort;
	readonly balancer: Balancer;
}

/**
 * What becomes of one TCP connection, whichever engine moves its bytes: which endpoint is tried next and for how
 * long, what a failed try means, when an open one has lasted too long, and the account of it all.
 *
 * Decides and remembers; touches no socket and starts no timer.
 */
export class TcpCourse {
	readonly #id: string;
	readonly #client: TcpClient;
	readonly #limits: TcpLimits;
	readonly #clock: Clock;
	readonly #attempts: AttemptLog;
	readonly #startedAtMs: number;
	readonly #beganMs: number;
	#pick: Pick | undefined;
	/** Undefined until an endpoint has answered. */
	#connectMs: number | undefined;
	#movedAtMs = 0;
	/** Since when its endpoint is none of the ServicePort's. */
	#removedSinceMs: number | undefined;

	/** To be made when the client is accepted: durations count from here. */
	constructor(id: string, client: TcpClient, limits: TcpLimits, clock: Clock) {
		this.#id = id;
		this.#client = client;
		this.#limits = limits;
		this.#clock = clock;
		this.#attempts = new AttemptLog(clock);
		this.#startedAtMs = clock.wallMs();
		this.#beganMs = clock.monotonicMs();
	}

	/** Of the last try. */
	get endpoint(): Endpoint | undefined {
		return this.#pick?.endpoint;
	}

	/** How long the last try may take. */
	get timeoutMs(): number {
		return this.#limits.dialTimeoutsMs[this.#attempts.count - 1] ?? 0;
	}

	/**
	 * Begins the next try.
	 *
	 * @returns which endpoint is to be dialed, or how the connection has to end because there is nothing left to try.
	 */
	next(): Endpoint | ConnectionEnd {
		if (this.#attempts.count >= this.#limits.dialTimeoutsMs.length) {
			return this.#attempts.failedLocally ? "overload" : "unreachable";
		}
		const { balancer, address } = this.#client;
		const pick = balancer.pick({ clientAddress: address, tried: this.#attempts.tried });
		if (pick === undefined) return "no-endpoint";
		this.#pick = pick;
		this.#attempts.begin(pick);
		return pick.endpoint;
	}

	/**
	 * The try has failed.
	 *
	 * @param errorCode undefined for a timeout of ours.
	 * @returns for how many milliseconds the {@link next} one has to wait; 0: not at all.
	 */
	failed(
		outcome: Exclude<DialOutcome, "connected" | "abandoned">,
		errorCode: string | undefined,
	): number {
		this.#attempts.end(outcome, errorCode);
		if (this.#pick !== undefined) this.#client.balancer.failed(this.#pick.endpoint, outcome);
		return outcome === "local-error" ? Math.min(this.timeoutMs, MAX_LOCAL_PAUSE_MS) : 0;
	}

	/** The endpoint has answered: there is no other one after it. */
	connected(): void {
		this.#attempts.end("connected", undefined);
		if (this.#pick !== undefined) {
			this.#client.balancer.answered(this.#pick.endpoint, this.#client.address);
		}
		this.#connectMs = this.#clock.monotonicMs() - this.#beganMs;
	}

	/** True when the connection's endpoint was removed so long ago that it has to end. To be asked now and then. */
	isDrained(): boolean {
		const { drainRemovedMs } = this.#limits;
		const key = this.endpoint?.key;
		if (drainRemovedMs === undefined || key === undefined) return false;
		if (this.#client.balancer.has(key)) {
			this.#removedSinceMs = undefined;
			return false;
		}
		const nowMs = this.#clock.monotonicMs();
		this.#removedSinceMs ??= nowMs;
		return nowMs - this.#removedSinceMs >= drainRemovedMs;
	}

	/**
	 * True when one that is half closed has been silent for so long that it has to end. To be asked now and then.
	 *
	 * @param hasMoved that a byte has moved since it was asked the last time; the first time it is true.
	 */
	isSilent(hasMoved: boolean): boolean {
		const nowMs = this.#clock.monotonicMs();
		if (hasMoved) this.#movedAtMs = nowMs;
		return nowMs - this.#movedAtMs >= this.#limits.halfCloseIdleMs;
	}

	/** While it lives. */
	describe(bytesIn: number, bytesOut: number, isHalfClosed: boolean): LiveConnection {
		return {
			id: this.#id,
			protocol: "tcp",
			service: this.#client.servicePort.name,
			client: formatSocketAddress(this.#client.address, this.#client.port),
			endpoint: this.#servedBy()?.key,
			startedAtMs: this.#startedAtMs,
			bytesIn,
			bytesOut,
			state: this.#connectMs === undefined ? "dialing" : isHalfClosed ? "half-closed" : "open",
		};
	}

	/** It is over; a try that goes on is abandoned. To be called once. */
	end(end: ConnectionEnd, bytesIn: number, bytesOut: number): ConnectionRecord {
		this.#attempts.end("abandoned", undefined);
		const { servicePort, address, port } = this.#client;
		const endpoint = this.#servedBy();
		return {
			id: this.#id,
			protocol: "tcp",
			family: servicePort.family,
			service: servicePort.name,
			client: formatSocketAddress(address, port),
			endpoint: endpoint?.key,
			podName: endpoint?.podName,
			attempts: this.#attempts.attempts,
			attemptCount: this.#attempts.count,
			affinity: endpoint === undefined ? undefined : this.#pick?.affinity,
			bytesIn,
			bytesOut,
			datagramsIn: undefined,
			datagramsOut: undefined,
			startedAtMs: this.#startedAtMs,
			durationMs: this.#clock.monotonicMs() - this.#beganMs,
			connectMs: this.#connectMs,
			end,
		};
	}

	#servedBy(): Endpoint | undefined {
		return this.#connectMs === undefined ? undefined : this.#pick?.endpoint;
	}
}
