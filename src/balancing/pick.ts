import type { IpAddress } from "../services/address.ts";
import type { AffinityOutcome, DialOutcome } from "../services/connection-record.ts";
import type { SessionAffinity } from "../services/objects.ts";
import type { Endpoint } from "../services/service-port.ts";
import type { SharedAffinity } from "./shared-affinity.ts";

/** Who wants an endpoint. */
export interface Candidate {
	/** Canonical: an IPv4-mapped address is the IPv4 address. The key of session affinity. */
	readonly clientAddress: IpAddress;
	/** Keys of the endpoints that this connection or flow has tried. */
	readonly tried: ReadonlySet<string>;
}

export interface Pick {
	readonly endpoint: Endpoint;
	/** How affinity took part, should this endpoint answer; undefined where the Service has none. */
	readonly affinity: AffinityOutcome | undefined;
}

/** Chooses endpoints of one ServicePort. Never waits, never fails. */
export interface Balancer {
	/** Shared with the balancer of the same port's other pool, where there is one. */
	readonly affinity: SharedAffinity;

	/** Replaces the endpoints and the kind of affinity; keeps the rotation's place and what is known. */
	update(endpoints: readonly Endpoint[], sessionAffinity: SessionAffinity): void;

	/** @returns undefined only when there is no endpoint at all. */
	pick(candidate: Candidate): Pick | undefined;

	/** The endpoint answered this client: it is well, and session affinity is with it from now on. */
	answered(endpoint: Endpoint, clientAddress: IpAddress): void;

	/**
	 * The endpoint was used from then on and has not refused, nor said anything else: all that can be
	 * known of one that never answers by its nature, a log collector. A failure from before that is
	 * forgotten, and no client is bound to it.
	 *
	 * @param sinceMs by the balancer's clock.
	 */
	unrefuted(endpoint: Endpoint, sinceMs: number): void;

	/** A try at the endpoint ended so. "local-error" and "abandoned" say nothing of it and are ignored. */
	failed(endpoint: Endpoint, outcome: DialOutcome): void;

	/** What another balancer of the same ServicePort, in another thread, has found out of an endpoint. */
	note(endpointKey: string, news: EndpointNews): void;

	/** True while the endpoint is one that may be picked. */
	has(endpointKey: string): boolean;

	/** Keys of the endpoints that failed lately and are tried last at present, in the list's order. */
	failing(): readonly string[];

	stats(): BalancerStats;
}

/** An endpoint is to be tried last from now on, or is well again. */
export type EndpointNews = "failed" | "answered";

export interface BalancerStats {
	readonly endpoints: number;
	/** How many {@link Balancer.failing} names. */
	readonly failing: number;
	/** Clients that session affinity remembers. */
	readonly affinityClients: number;
	/** Clients forgotten since the start because the table was full. */
	readonly affinityEvictions: number;
}
