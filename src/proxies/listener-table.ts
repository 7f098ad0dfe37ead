import type { IpAddress } from "../services/address.ts";
import { toBinding } from "../services/binding.ts";
import { isEqualAddress, isEqualList, isEqualNodePort } from "../services/equal-service-ports.ts";
import {
	type Binding,
	type ServicePort,
	type ServicePortKey,
	servicePortKey,
} from "../services/service-port.ts";
import type { DescriptorBudget } from "./descriptor-budget.ts";
import type { ListenProblem, ReconcileOutcome } from "./engine.ts";
import type { ListenTarget, ServicePortListener } from "./listener.ts";
import type { PortAllocator } from "./port-allocator.ts";

/** Opening a listener takes microseconds and no turn of the event loop; after so many, others run. */
const OPENED_PER_TURN = 64;

export interface ListenerTableOptions {
	readonly ports: PortAllocator;
	readonly budget: DescriptorBudget;
	/** Where the ServicePort's listener is to be bound now; undefined: every address of its family. */
	addressFor(servicePort: ServicePort): IpAddress | undefined;
	open(servicePort: ServicePort, target: ListenTarget): Promise<ServicePortListener>;
}

interface Entry {
	servicePort: ServicePort;
	readonly listener: ServicePortListener;
	binding: Binding;
}

/**
 * The listeners of an engine, one per ServicePort: opened when a ServicePort appears, told of every
 * change, closed when nobody wants it and no packet rule points at it. See RelayEngine for what
 * {@link reconcile} and {@link retire} promise.
 *
 * A listener keeps its port for life. The one exception to one per ServicePort is a listener whose
 * address the node has lost, where an engine binds to one: another one is opened in its place, and it
 * is closed at the next {@link retire}.
 */
export class ListenerTable {
	readonly #options: ListenerTableOptions;
	readonly #entries = new Map<ServicePortKey, Entry>();
	#replaced: Entry[] = [];
	#latestBindings: readonly Binding[] = [];
	#wanted: ReadonlySet<ServicePortKey> = new Set();
	#isClosed: boolean = false;

	constructor(options: ListenerTableOptions) {
		this.#options = options;
	}

	get size(): number {
		return this.#entries.size + this.#replaced.length;
	}

	async reconcile(wanted: readonly ServicePort[]): Promise<ReconcileOutcome> {
		this.#wanted = new Set(wanted.map(({ key }) => key));
		const problems: ListenProblem[] = [];
		let opened = 0;
		for (const servicePort of wanted) {
			if (this.#isClosed) break;
			if (this.#update(servicePort)) continue;
			// One after the other: each must see which ports the others took.
			const error = await this.#open(servicePort);
			if (error !== undefined) {
				problems.push({ key: servicePort.key, name: servicePort.name, error });
			}
			opened += 1;
			if (opened % OPENED_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
		}
		return { bindings: this.#bindings(), problems };
	}

	retire(referenced: ReadonlySet<ServicePortKey>): void {
		for (const entry of this.#replaced) this.#close(entry);
		this.#replaced = [];
		for (const [key, entry] of this.#entries) {
			if (this.#wanted.has(key) || referenced.has(key)) continue;
			this.#entries.delete(key);
			this.#close(entry);
		}
	}

	/** See RelayEngine. */
	failingEndpoints(): ReadonlyMap<ServicePortKey, readonly string[]> {
		const failing = new Map<ServicePortKey, readonly string[]>();
		for (const [key, { listener }] of this.#entries) {
			const endpoints = listener.failingEndpoints();
			if (endpoints.length > 0) failing.set(key, endpoints);
		}
		return failing;
	}

	/** For good: a {@link reconcile} that is under way opens nothing more. */
	closeAll(): void {
		this.#isClosed = true;
		this.#wanted = new Set();
		this.retire(new Set());
	}

	/** @returns false when a listener has to be opened. */
	#update(servicePort: ServicePort): boolean {
		const entry = this.#entries.get(servicePort.key);
		if (entry === undefined) return false;
		if (entry.servicePort !== servicePort) {
			entry.servicePort = servicePort;
			entry.listener.update(servicePort);
			const binding = toBinding(servicePort, entry.listener);
			if (!isSameBinding(entry.binding, binding)) entry.binding = binding;
		}
		return entry.listener.listenAddress === this.#options.addressFor(servicePort);
	}

	async #open(servicePort: ServicePort): Promise<Error | undefined> {
		const before = this.#entries.get(servicePort.key);
		try {
			const address = this.#options.addressFor(servicePort);
			// One that takes the place of another goes on with what that one knows of clients.
			const sibling = (before ?? this.#entries.get(siblingKey(servicePort)))?.listener;
			const listener = await this.#options.ports.allocate(servicePort, (port) =>
				this.#options.open(servicePort, { address, port, sibling }),
			);
			this.#options.budget.take(1);
			if (this.#isClosed) {
				this.#close({ servicePort, listener });
				return undefined;
			}
			const binding = toBinding(servicePort, listener);
			if (before !== undefined) this.#replaced.push(before);
			this.#entries.set(servicePort.key, { servicePort, listener, binding });
			return undefined;
		} catch (error) {
			return error instanceof Error ? error : new Error(String(error));
		}
	}

	#close({ servicePort, listener }: Pick<Entry, "servicePort" | "listener">): void {
		listener.close();
		this.#options.ports.release(servicePort, listener.proxyPort);
		this.#options.budget.give(1);
	}

	/** The very same list while nothing in it has changed. */
	#bindings(): readonly Binding[] {
		const bindings: Binding[] = [];
		for (const key of this.#wanted) {
			const entry = this.#entries.get(key);
			if (entry !== undefined) bindings.push(entry.binding);
		}
		const before = this.#latestBindings;
		const isSame =
			bindings.length === before.length &&
			bindings.every((binding, index) => binding === before[index]);
		if (!isSame) this.#latestBindings = bindings;
		return this.#latestBindings;
	}
}

/** Of the same port's other pool. */
function siblingKey(servicePort: ServicePort): ServicePortKey {
	return servicePortKey({
		...servicePort,
		pool: servicePort.pool === "local" ? "cluster" : "local",
	});
}

/** Of one listener, so that only what a ServicePort can change has to be compared. */
function isSameBinding(a: Binding, b: Binding): boolean {
	return (
		a.name === b.name &&
		a.port === b.port &&
		a.verdict === b.verdict &&
		isEqualNodePort(a.nodePort, b.nodePort) &&
		isEqualList(a.virtualAddresses, b.virtualAddresses, isEqualAddress)
	);
}
