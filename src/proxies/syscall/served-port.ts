import type { Balancer, EndpointNews } from "../../balancing/pick.ts";
import type { RelayedPort } from "../listener.ts";
import { readRelayedPort } from "./relayed-port.ts";

/**
 * @param listener that it is for.
 * @param turn index in SharedState.turns.
 * @param sibling with which it is to share session affinity.
 */
export type CreateBalancer = (
	listener: number,
	turn: number,
	sibling: Balancer | undefined,
) => Balancer;

/**
 * A ServicePort as one worker serves it.
 *
 * It stays the text that it came as until there is a client, a failure that another worker tells of, or one to share
 * session affinity with: most ServicePorts of a big cluster have none of that on most nodes, and thousands that come at
 * once must hold up nobody.
 */
export class ServedPort {
	readonly listener: number;
	readonly #turn: number;
	#fds: readonly number[] = [];
	readonly #createBalancer: CreateBalancer;
	#text: string;
	#port: RelayedPort | undefined;
	#balancer: Balancer | undefined;

	/**
	 * @param turn index in SharedState.turns.
	 * @param text of writeRelayedPort.
	 */
	constructor(listener: number, turn: number, text: string, createBalancer: CreateBalancer) {
		this.listener = listener;
		this.#turn = turn;
		this.#text = text;
		this.#createBalancer = createBalancer;
	}

	/** Its sockets at this worker. */
	get fds(): readonly number[] {
		return this.#fds;
	}

	/** @returns those that it did not have: a worker may be told of a socket twice when it takes another's place. */
	addSockets(fds: readonly number[]): readonly number[] {
		const added = fds.filter((fd) => !this.#fds.includes(fd));
		this.#fds = [...this.#fds, ...added];
		return added;
	}

	get port(): RelayedPort {
		if (this.#port === undefined) {
			this.#port = readRelayedPort(this.#text);
			this.#text = "";
		}
		return this.#port;
	}

	get balancer(): Balancer {
		return this.#balancer ?? this.#begin(undefined);
	}

	/** Has it share session affinity with another, where it has had no client yet. */
	joinWith(sibling: ServedPort): void {
		if (this.#balancer === undefined) this.#begin(sibling.balancer);
	}

	/** @param text of writeRelayedPort. */
	update(text: string): void {
		this.#text = text;
		this.#port = undefined;
		if (this.#balancer !== undefined) this.#tell(this.#balancer);
	}

	/** What another worker has found out. */
	note(endpointKey: string, news: EndpointNews): void {
		// That one answers is no news to who knows of no failure.
		if (this.#balancer === undefined && news === "answered") return;
		this.balancer.note(endpointKey, news);
	}

	/** Keys of endpoints that are tried last at present. */
	failing(): readonly string[] {
		return this.#balancer?.failing() ?? [];
	}

	#begin(sibling: Balancer | undefined): Balancer {
		const balancer = this.#createBalancer(this.listener, this.#turn, sibling);
		this.#tell(balancer);
		this.#balancer = balancer;
		return balancer;
	}

	#tell(balancer: Balancer): void {
		balancer.update(this.port.endpoints, this.port.sessionAffinity);
	}
}

/** Of all that have some, by listener: keys of endpoints that are tried last at present. */
export function failingOf(ports: Iterable<ServedPort>): ReadonlyMap<number, readonly string[]> {
	const failing = new Map<number, readonly string[]>();
	for (const port of ports) {
		const endpoints = port.failing();
		if (endpoints.length > 0) failing.set(port.listener, endpoints);
	}
	return failing;
}
