import { addCounts, countEnded, type ServiceCounts } from "../services/connection-counts.ts";
import type { ConnectionRecord } from "../services/connection-record.ts";
import type { Protocol } from "../services/service-port.ts";
import { activeOf, newServiceTally, type ServiceTally } from "./service-tally.ts";

/** ServicePorts with series of their own; some 20 series each. The rest share `service="(other)"`. */
const MAX_SERVICES = 5_000;

const OTHER = "(other)";

/**
 * Counts per ServicePort, for service-series.ts to write out. Labels hold Service names, never
 * addresses of clients or endpoints.
 *
 * A few additions per connection. A Service's series go when it has gone and its last connection
 * has ended.
 */
export class ServiceMetrics {
	readonly #tallies = new Map<string, ServiceTally>();
	readonly #others = new Map<Protocol, ServiceTally>();
	readonly #maxServices: number;
	#sharing = 0;

	constructor(maxServices: number = MAX_SERVICES) {
		this.#maxServices = maxServices;
	}

	/**
	 * These have series from now on, all others lose theirs with their last connection. Call it with
	 * each new set of ServicePorts, before their listeners open.
	 */
	keepServices(
		servicePorts: Iterable<{ readonly name: string; readonly protocol: Protocol }>,
	): void {
		const wanted = new Map<string, { readonly name: string; readonly protocol: Protocol }>();
		for (const servicePort of servicePorts) {
			wanted.set(keyOf(servicePort.protocol, servicePort.name), servicePort);
		}
		for (const [key, tally] of this.#tallies) {
			tally.wanted = wanted.has(key);
			this.#forgetIfOver(key, tally);
		}
		this.#sharing = 0;
		for (const [key, { name, protocol }] of wanted) {
			const tally = this.#tallies.get(key) ?? this.#addTally(key, name, protocol);
			if (tally === undefined) this.#sharing += 1;
			else tally.wanted = true;
		}
	}

	started({ protocol, service }: { readonly protocol: Protocol; readonly service: string }): void {
		this.tallyOf(protocol, service).counts.started += 1;
	}

	ended(record: ConnectionRecord): void {
		const tally = this.tallyOf(record.protocol, record.service);
		countEnded(tally.counts, record);
		this.#forgetIfOver(keyOf(record.protocol, record.service), tally);
	}

	/** Connections and flows that were counted elsewhere. */
	counted({ protocol, service, counts }: ServiceCounts): void {
		const tally = this.tallyOf(protocol, service);
		addCounts(tally.counts, counts);
		this.#forgetIfOver(keyOf(protocol, service), tally);
	}

	/** The Service's own, or the one that those beyond the limit share. */
	tallyOf(protocol: Protocol, service: string): ServiceTally {
		const key = keyOf(protocol, service);
		return (
			this.#tallies.get(key) ?? this.#addTally(key, service, protocol) ?? this.#otherTally(protocol)
		);
	}

	*all(): Generator<ServiceTally> {
		yield* this.#tallies.values();
		yield* this.#others.values();
	}

	/** ServicePorts beyond the limit at present. */
	withoutOwnSeries(): number {
		return this.#sharing;
	}

	#addTally(key: string, service: string, protocol: Protocol): ServiceTally | undefined {
		if (this.#tallies.size >= this.#maxServices) return undefined;
		const tally = newServiceTally(service, protocol);
		this.#tallies.set(key, tally);
		return tally;
	}

	#otherTally(protocol: Protocol): ServiceTally {
		const known = this.#others.get(protocol);
		if (known !== undefined) return known;
		const tally = newServiceTally(OTHER, protocol);
		this.#others.set(protocol, tally);
		return tally;
	}

	#forgetIfOver(key: string, tally: ServiceTally): void {
		if (!tally.wanted && activeOf(tally) === 0) this.#tallies.delete(key);
	}
}

function keyOf(protocol: Protocol, service: string): string {
	return `${protocol} ${service}`;
}
