import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { IP_FAMILIES, type IpAddress, type IpFamily } from "../services/address.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { chooseNodeAddress, type Interfaces, uplinksOf } from "./node-address.ts";

export interface NodeAddressesOptions {
	readonly log: Log;
	/** What the cluster says of this node; empty without a cluster. */
	clusterAddresses(): readonly IpAddress[];
	readonly interfaces?: () => Interfaces;
	readonly routes?: () => string;
}

/** The node addresses that UDP proxies bind to, as last looked up. */
export class NodeAddresses {
	readonly #options: NodeAddressesOptions;
	readonly #failure: RecurringFailure;
	#current: Readonly<Record<IpFamily, IpAddress | undefined>> = {
		ipv4: undefined,
		ipv6: undefined,
	};

	constructor(options: NodeAddressesOptions) {
		this.#options = options;
		this.#failure = new RecurringFailure({
			log: options.log,
			failing: "cannot look up this node's addresses, those known stay",
			recovered: "this node's addresses are looked up again",
		});
	}

	/**
	 * Looks again; what was known stays where that fails, for want of a descriptor above all.
	 *
	 * @returns whether an address is another one than before.
	 */
	refresh(): boolean {
		const { routes = readRoutes, log } = this.#options;
		const found = this.#interfaces();
		if (found === undefined) return false;
		const uplinks = uplinksOf(routes());
		const clusterAddresses = this.#options.clusterAddresses();
		const choose = (family: IpFamily): IpAddress | undefined =>
			chooseNodeAddress(family, {
				interfaces: found,
				uplinks,
				clusterAddresses,
				current: this.#current[family],
			});
		const next = { ipv4: choose("ipv4"), ipv6: choose("ipv6") };
		const hasChanged = IP_FAMILIES.some((family) => next[family] !== this.#current[family]);
		if (hasChanged) log.info({ was: this.#current, now: next }, "node addresses for UDP proxies");
		this.#current = next;
		return hasChanged;
	}

	#interfaces(): Interfaces | undefined {
		const { interfaces = networkInterfaces } = this.#options;
		try {
			const found = interfaces();
			this.#failure.succeeded();
			return found;
		} catch (error) {
			this.#failure.failed(describeError(error));
			return undefined;
		}
	}

	of(family: IpFamily): IpAddress | undefined {
		return this.#current[family];
	}
}

/** Empty where there is no /proc, or no IPv4. */
function readRoutes(): string {
	try {
		return readFileSync("/proc/net/route", "utf8");
	} catch {
		return "";
	}
}
