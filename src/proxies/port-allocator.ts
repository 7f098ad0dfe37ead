import { type Port, toPort } from "../services/port.ts";
import {
	parseServicePortKey,
	type ServicePort,
	type ServicePortKey,
} from "../services/service-port.ts";
import { errorCode, UserProxyError } from "../shared/errors.ts";
import type { PreferredPorts } from "./engine.ts";
import type { ServicePortListener } from "./listener.ts";

/** How often the kernel is asked for another port when it gave one that is to be avoided. */
const KERNEL_TRIES = 16;

/**
 * Released UDP ports whose former ServicePorts are remembered; beyond that the oldest is forgotten.
 * What sends datagrams there is gone after some minutes.
 */
const MAX_FORMER = 1024;

/** A bind that failed so says that this port is not to be had; another one may be. */
const PORT_TAKEN: ReadonlySet<string> = new Set(["EADDRINUSE", "EACCES"]);

/** Both ends included. */
interface PortRange {
	readonly first: Port;
	readonly last: Port;
}

export interface PortAllocatorOptions {
	/** Undefined: the kernel chooses. */
	readonly range: PortRange | undefined;
	/** Ports that rules in force already point at, from a predecessor. */
	readonly preferred: PreferredPorts;
	/** Uniform in [0, 1). */
	readonly random: () => number;
}

/** No port is left; one may be after others have been released. */
export class ProxyPortsExhaustedError extends UserProxyError {
	readonly code = "PROXY_PORTS_EXHAUSTED";
	readonly retriable = true;
}

/**
 * Finds each listener a proxy port: its predecessor's where that is free, else one of the range
 * from a random start upward, or the kernel's choice.
 *
 * A port is known to be free only by binding it, so the allocator calls whoever binds. TCP and UDP,
 * IPv4 and IPv6 have each their own ports. Until {@link forgetPreferred}, no ServicePort gets a port
 * at which a predecessor's rules send the clients of another one.
 *
 * A UDP port that was released goes to another ServicePort only when there is no other: the kernel
 * may send former clients there as long as they go on sending (conntrack asks the rules once a flow),
 * and they would talk to the wrong Service.
 */
export class PortAllocator {
	readonly #range: PortAllocatorOptions["range"];
	readonly #random: () => number;
	#preferred: PreferredPorts;
	#avoided: ReadonlyMap<string, ServicePortKey>;
	readonly #taken = new Set<string>();
	/** Who had a UDP port, by slot, in the order of the releases. */
	readonly #former = new Map<string, ServicePortKey>();

	constructor({ range, preferred, random }: PortAllocatorOptions) {
		this.#range = range;
		this.#random = random;
		this.#preferred = preferred;
		this.#avoided = new Map(
			[...preferred].flatMap(([key, port]) => {
				const parts = parseServicePortKey(key);
				return parts === undefined ? [] : [[slot(spaceOf(parts), port), key]];
			}),
		);
	}

	/**
	 * Calls `open` with one port after the other until one of them is free.
	 *
	 * Not to be called again before it has settled.
	 *
	 * @throws {ProxyPortsExhaustedError} when every port is taken; whatever else `open` throws.
	 */
	async allocate(
		servicePort: ServicePort,
		open: (port: Port | 0) => Promise<ServicePortListener>,
	): Promise<ServicePortListener> {
		let conflict: unknown;
		for (const { port, isLastResort } of this.#candidates(servicePort)) {
			try {
				const listener = await open(port);
				if (this.#isFit(servicePort, listener.proxyPort, isLastResort)) {
					this.#take(slot(spaceOf(servicePort), listener.proxyPort));
					return listener;
				}
				listener.close();
			} catch (error) {
				if (!PORT_TAKEN.has(errorCode(error) ?? "")) throw error;
				conflict = error;
			}
		}
		const where =
			this.#range === undefined
				? "the kernel gave only ports that other rules point at"
				: `no port of ${this.#range.first}-${this.#range.last} is free`;
		throw new ProxyPortsExhaustedError(`Cannot listen for "${servicePort.name}": ${where}`, {
			cause: conflict,
		});
	}

	/** To be called when the listener is closed. */
	release(servicePort: ServicePort, port: Port): void {
		const released = slot(spaceOf(servicePort), port);
		this.#taken.delete(released);
		if (servicePort.protocol !== "udp") return;
		this.#former.delete(released);
		this.#former.set(released, servicePort.key);
		const oldest = this.#former.keys().next();
		if (this.#former.size > MAX_FORMER && oldest.done !== true) this.#former.delete(oldest.value);
	}

	/** True while a listener of ours has the port. */
	isTaken(at: Pick<ServicePort, "protocol" | "family">, port: Port): boolean {
		return this.#taken.has(slot(spaceOf(at), port));
	}

	/** To be called when the predecessor's rules have been replaced. */
	forgetPreferred(): void {
		this.#preferred = new Map();
		this.#avoided = new Map();
	}

	*#candidates(servicePort: ServicePort): Generator<Candidate> {
		const preferred = this.#preferred.get(servicePort.key);
		for (const port of [preferred, ...this.#formerPorts(servicePort, true)]) {
			if (port !== undefined && this.#mayUse(servicePort, port)) yield toCandidate(port);
		}
		if (this.#range !== undefined) {
			yield* this.#candidatesOf(this.#range, servicePort);
			return;
		}
		for (let turn = 0; turn < KERNEL_TRIES; turn += 1) yield toCandidate(0);
		yield { port: 0, isLastResort: true };
	}

	*#candidatesOf({ first, last }: PortRange, servicePort: ServicePort): Generator<Candidate> {
		const count = last - first + 1;
		const start = Math.floor(this.#random() * count);
		for (let step = 0; step < count; step += 1) {
			const port = toPort(first + ((start + step) % count));
			const isFit = this.#mayUse(servicePort, port) && this.#isFit(servicePort, port, false);
			if (isFit) yield toCandidate(port);
		}
		for (const port of this.#formerPorts(servicePort, false)) {
			if (this.#mayUse(servicePort, port)) yield { port, isLastResort: true };
		}
	}

	/** Ports of the ServicePort's kind that it had itself, or that others had; as of this moment. */
	#formerPorts(servicePort: ServicePort, isOwn: boolean): readonly Port[] {
		const prefix = slot(spaceOf(servicePort), "");
		return [...this.#former]
			.filter(([at, key]) => at.startsWith(prefix) && (key === servicePort.key) === isOwn)
			.map(([at]) => toPort(Number(at.slice(prefix.length))));
	}

	#take(at: string): void {
		this.#taken.add(at);
		this.#former.delete(at);
	}

	#isFit(servicePort: ServicePort, port: Port, isLastResort: boolean): boolean {
		const former = this.#former.get(slot(spaceOf(servicePort), port));
		const wasForOther = former !== undefined && former !== servicePort.key;
		return !this.#isForOther(servicePort, port) && (isLastResort || !wasForOther);
	}

	#mayUse(servicePort: ServicePort, port: Port): boolean {
		if (this.#range !== undefined && (port < this.#range.first || port > this.#range.last)) {
			return false;
		}
		return (
			!this.#taken.has(slot(spaceOf(servicePort), port)) && !this.#isForOther(servicePort, port)
		);
	}

	#isForOther(servicePort: ServicePort, port: Port): boolean {
		const owner = this.#avoided.get(slot(spaceOf(servicePort), port));
		return owner !== undefined && owner !== servicePort.key;
	}
}

/** A port to try, 0 for the kernel's choice. */
interface Candidate {
	readonly port: Port | 0;
	/** True: another ServicePort's former port will do. */
	readonly isLastResort: boolean;
}

function toCandidate(port: Port | 0): Candidate {
	return { port, isLastResort: false };
}

function spaceOf({ protocol, family }: Pick<ServicePort, "protocol" | "family">): string {
	return `${protocol}/${family}`;
}

function slot(space: string, port: Port | ""): string {
	return `${space}/${port}`;
}
