import { type Port, toPort } from "../services/port.ts";
import type { ServicePort, ServicePortKey } from "../services/service-port.ts";
import { errorCode, UserProxyError } from "../shared/errors.ts";
import type { PreferredPorts } from "./engine.ts";
import type { ServicePortListener } from "./listener.ts";

/** How often the kernel is asked for another port when it gave one that is to be avoided. */
const KERNEL_TRIES = 16;

/** A bind that failed so says that this port is not to be had; another one may be. */
const PORT_TAKEN: ReadonlySet<string> = new Set(["EADDRINUSE", "EACCES"]);

export interface PortAllocatorOptions {
	/** Both ends included; undefined: the kernel chooses. */
	readonly range: { readonly first: Port; readonly last: Port } | undefined;
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
 */
export class PortAllocator {
	readonly #range: PortAllocatorOptions["range"];
	readonly #random: () => number;
	#preferred: PreferredPorts;
	#avoided: ReadonlyMap<string, ServicePortKey>;
	readonly #taken = new Set<string>();

	constructor({ range, preferred, random }: PortAllocatorOptions) {
		this.#range = range;
		this.#random = random;
		this.#preferred = preferred;
		this.#avoided = new Map(
			[...preferred].map(([key, port]) => [slot(spaceOfKey(key), port), key]),
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
		for (const port of this.#candidates(servicePort)) {
			try {
				const listener = await open(port);
				if (!this.#isForOther(servicePort, listener.proxyPort)) {
					this.#taken.add(slot(spaceOf(servicePort), listener.proxyPort));
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
		this.#taken.delete(slot(spaceOf(servicePort), port));
	}

	/** To be called when the predecessor's rules have been replaced. */
	forgetPreferred(): void {
		this.#preferred = new Map();
		this.#avoided = new Map();
	}

	*#candidates(servicePort: ServicePort): Generator<Port | 0> {
		const preferred = this.#preferred.get(servicePort.key);
		if (preferred !== undefined && this.#mayUse(servicePort, preferred)) yield preferred;
		if (this.#range === undefined) {
			for (let turn = 0; turn < KERNEL_TRIES; turn += 1) yield 0;
			return;
		}
		const { first, last } = this.#range;
		const count = last - first + 1;
		const start = Math.floor(this.#random() * count);
		for (let step = 0; step < count; step += 1) {
			const port = toPort(first + ((start + step) % count));
			if (this.#mayUse(servicePort, port)) yield port;
		}
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

function spaceOf({ protocol, family }: ServicePort): string {
	return `${protocol}/${family}`;
}

/** The key's last two parts are protocol and family. */
function spaceOfKey(key: ServicePortKey): string {
	return key.split("/").slice(-2).join("/");
}

function slot(space: string, port: Port): string {
	return `${space}/${port}`;
}
