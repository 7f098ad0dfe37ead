import type { IpAddress } from "../services/address.ts";
import type { DialOutcome } from "../services/connection-record.ts";
import type { SessionAffinity as WantedAffinity } from "../services/objects.ts";
import type { Endpoint } from "../services/service-port.ts";
import { FailureMemory } from "./failure-memory.ts";
import type { Balancer, BalancerStats, Candidate, Pick } from "./pick.ts";
import { RoundRobin } from "./round-robin.ts";
import { SessionAffinity } from "./session-affinity.ts";

/*
 * balancing/ decides which endpoint a client gets: rotation (round-robin.ts), the endpoint that the
 * client had before (session-affinity.ts), and last those that failed lately (failure-memory.ts).
 * One balancer per ServicePort, put together here. It opens nothing, waits for nothing and reads no
 * clock of its own; whoever dials tells it what came of it.
 */

export interface BalancerOptions {
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Uniform in [0, 1). */
	readonly random: () => number;
}

/** What a failed try tells of the endpoint. */
const BLAMES_ENDPOINT: Readonly<Record<DialOutcome, boolean>> = {
	connected: false,
	refused: true,
	timeout: true,
	unreachable: true,
	"local-error": false,
	abandoned: false,
};

export function createBalancer(options: BalancerOptions): Balancer {
	return new ServicePortBalancer(options);
}

class ServicePortBalancer implements Balancer {
	readonly #now: () => number;
	readonly #rotation: RoundRobin;
	readonly #failures: FailureMemory;
	/** Undefined where the Service has no affinity. */
	#affinity: SessionAffinity | undefined;
	#affinityTimeoutMs = 0;
	#formerEvictions = 0;

	constructor({ now, random }: BalancerOptions) {
		this.#now = now;
		this.#rotation = new RoundRobin(random);
		this.#failures = new FailureMemory(now);
	}

	update(endpoints: readonly Endpoint[], sessionAffinity: WantedAffinity): void {
		this.#rotation.update(endpoints);
		this.#failures.keepOnly(this.#rotation);
		if (sessionAffinity.type === "ClientIP") {
			this.#affinityTimeoutMs = sessionAffinity.timeoutMs;
			this.#affinity ??= new SessionAffinity(this.#now);
		} else if (this.#affinity !== undefined) {
			this.#formerEvictions += this.#affinity.evictions;
			this.#affinity = undefined;
		}
	}

	pick(candidate: Candidate): Pick | undefined {
		const picked =
			this.#affinity === undefined
				? this.#pickByTurn(candidate)
				: this.#pickForClient(this.#affinity, candidate);
		if (picked !== undefined) this.#failures.picked(picked.endpoint.key);
		return picked;
	}

	answered(endpoint: Endpoint, clientAddress: IpAddress): void {
		this.#failures.answered(endpoint.key);
		// One that was taken out of the list during the dial is no endpoint to come back to.
		if (this.#rotation.has(endpoint.key)) {
			this.#affinity?.set(clientAddress, endpoint.key, "kept");
		}
	}

	failed(endpoint: Endpoint, outcome: DialOutcome): void {
		if (BLAMES_ENDPOINT[outcome] && this.#rotation.has(endpoint.key)) {
			this.#failures.failed(endpoint.key);
		}
	}

	has(endpointKey: string): boolean {
		return this.#rotation.has(endpointKey);
	}

	stats(): BalancerStats {
		return {
			endpoints: this.#rotation.size,
			failing: this.#failures.size,
			affinityClients: this.#affinity?.size ?? 0,
			affinityEvictions: this.#formerEvictions + (this.#affinity?.evictions ?? 0),
		};
	}

	#pickForClient(affinity: SessionAffinity, candidate: Candidate): Pick | undefined {
		const { clientAddress, tried } = candidate;
		const sticky = affinity.find(clientAddress, this.#affinityTimeoutMs);
		const own = sticky === undefined ? undefined : this.#rotation.get(sticky.endpointKey);
		if (sticky !== undefined && own !== undefined && this.#rank(own, tried) === 0) {
			return { endpoint: own, affinity: sticky.standing };
		}
		const picked = this.#pickByTurn(candidate);
		if (picked === undefined) return undefined;
		if (sticky?.endpointKey === picked.endpoint.key) {
			return { endpoint: picked.endpoint, affinity: sticky.standing };
		}
		const standing = sticky === undefined || sticky.standing === "assigned" ? "assigned" : "moved";
		affinity.set(clientAddress, picked.endpoint.key, standing);
		return { endpoint: picked.endpoint, affinity: standing };
	}

	#pickByTurn({ tried }: Candidate): Pick | undefined {
		const endpoint = this.#rotation.next((each) => this.#rank(each, tried));
		return endpoint === undefined ? undefined : { endpoint, affinity: undefined };
	}

	/** 0 is the best. What this connection has tried weighs more than what others have seen. */
	#rank(endpoint: Endpoint, tried: ReadonlySet<string>): number {
		return (tried.has(endpoint.key) ? 2 : 0) + (this.#failures.isAvoided(endpoint.key) ? 1 : 0);
	}
}
