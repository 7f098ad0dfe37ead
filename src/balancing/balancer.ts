import type { IpAddress } from "../services/address.ts";
import type { DialOutcome } from "../services/connection-record.ts";
import type { SessionAffinity as WantedAffinity } from "../services/objects.ts";
import type { Endpoint } from "../services/service-port.ts";
import { FailureMemory } from "./failure-memory.ts";
import type { Balancer, BalancerStats, Candidate, EndpointNews, Pick } from "./pick.ts";
import { RoundRobin, type Turn } from "./round-robin.ts";
import type { SessionAffinity, Sticky } from "./session-affinity.ts";
import { SharedAffinity } from "./shared-affinity.ts";

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
	/** Called whenever session affinity forgets a client because its table is full. */
	readonly onAffinityEviction?: () => void;
	/** Called when an endpoint failed, and when one that had failed answered: for those of other threads. */
	readonly onNews?: ((endpointKey: string, news: EndpointNews) => void) | undefined;
	/** Clients that session affinity remembers at most. */
	readonly maxAffinityClients?: number | undefined;
	/** Whose turn it is, where several threads choose for one ServicePort. */
	readonly turn?: Turn | undefined;
	/** The balancer of the same port's other pool, with which it shares session affinity. */
	readonly sibling?: Balancer | undefined;
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
	readonly affinity: SharedAffinity;
	readonly #rotation: RoundRobin;
	readonly #failures: FailureMemory;
	readonly #onNews: NonNullable<BalancerOptions["onNews"]>;

	constructor(options: BalancerOptions) {
		const { now, random, onAffinityEviction, maxAffinityClients, sibling } = options;
		this.#rotation = new RoundRobin(random, options.turn);
		this.#failures = new FailureMemory(now);
		this.#onNews = options.onNews ?? (() => {});
		this.affinity =
			sibling?.affinity ??
			new SharedAffinity({ now, onEviction: onAffinityEviction, maxClients: maxAffinityClients });
	}

	update(endpoints: readonly Endpoint[], sessionAffinity: WantedAffinity): void {
		this.#rotation.update(endpoints);
		this.#failures.keepOnly(this.#rotation);
		this.affinity.update(sessionAffinity);
	}

	pick(candidate: Candidate): Pick | undefined {
		const { table } = this.affinity;
		const picked =
			table === undefined ? this.#pickByTurn(candidate) : this.#pickForClient(table, candidate);
		if (picked !== undefined) this.#failures.picked(picked.endpoint.key);
		return picked;
	}

	answered(endpoint: Endpoint, clientAddress: IpAddress): void {
		if (this.#failures.answered(endpoint.key)) this.#onNews(endpoint.key, "answered");
		// One that was taken out of the list during the dial is no endpoint to come back to.
		if (this.#rotation.has(endpoint.key)) {
			this.affinity.table?.set(clientAddress, endpoint.key, "kept");
		}
	}

	unrefuted(endpoint: Endpoint, sinceMs: number): void {
		this.#failures.unrefuted(endpoint.key, sinceMs);
	}

	failed(endpoint: Endpoint, outcome: DialOutcome): void {
		if (BLAMES_ENDPOINT[outcome] && this.#rotation.has(endpoint.key)) {
			if (this.#failures.failed(endpoint.key)) this.#onNews(endpoint.key, "failed");
		}
	}

	note(endpointKey: string, news: EndpointNews): void {
		if (!this.#rotation.has(endpointKey)) return;
		if (news === "failed") this.#failures.failed(endpointKey);
		else this.#failures.answered(endpointKey);
	}

	has(endpointKey: string): boolean {
		return this.#rotation.has(endpointKey);
	}

	failing(): readonly string[] {
		// Almost always: nothing to look through.
		if (this.#failures.size === 0) return [];
		return this.#rotation.endpoints
			.map(({ key }) => key)
			.filter((key) => this.#failures.isAvoided(key));
	}

	stats(): BalancerStats {
		return {
			endpoints: this.#rotation.size,
			failing: this.failing().length,
			affinityClients: this.affinity.table?.size ?? 0,
			affinityEvictions: this.affinity.evictions,
		};
	}

	#pickForClient(affinity: SessionAffinity, candidate: Candidate): Pick | undefined {
		const { clientAddress, tried } = candidate;
		const sticky = affinity.find(clientAddress, this.affinity.timeoutMs);
		// The one that answered first: the other one has been picked and never has.
		const own = [sticky?.answeredBy, sticky?.endpointKey]
			.map((key) => (key === undefined ? undefined : this.#rotation.get(key)))
			.filter((endpoint) => endpoint !== undefined);
		const isUpTo = (rank: number) => (each: Endpoint) => this.#rank(each, tried) <= rank;
		const endpoint = own.find(isUpTo(0)) ?? this.#rotation.next((each) => this.#rank(each, tried));
		if (endpoint === undefined) return undefined;
		// Where all have failed, it was most likely the way to them: no reason to lose a session. One that this connection has
		// tried and that never answered the client is none to lose.
		const isToKeep = ({ key }: Endpoint) => key === sticky?.answeredBy || !tried.has(key);
		const isNoWorse = isUpTo(this.#rank(endpoint, tried));
		const chosen = own.find((each) => isToKeep(each) && isNoWorse(each)) ?? endpoint;
		const standing = standingOf(chosen, sticky);
		if (sticky?.endpointKey !== chosen.key) affinity.set(clientAddress, chosen.key, standing);
		return { endpoint: chosen, affinity: standing };
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

function standingOf({ key }: Endpoint, sticky: Sticky | undefined): Sticky["standing"] {
	if (sticky === undefined) return "assigned";
	if (sticky.answeredBy === key) return "kept";
	return sticky.standing === "assigned" ? "assigned" : "moved";
}
