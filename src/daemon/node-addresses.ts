import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { IP_FAMILIES, type IpAddress, type IpFamily } from "../services/address.ts";
import type { Log } from "../shared/log.ts";
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
	#current: Readonly<Record<IpFamily, IpAddress | undefined>> = {
		ipv4: undefined,
		ipv6: undefined,
	};

	constructor(options: NodeAddressesOptions) {
		this.#options = options;
	}

	/** Looks again. @returns whether an address is another one than before. */
	refresh(): boolean {
		const { interfaces = networkInterfaces, routes = readRoutes, log } = this.#options;
		const found = interfaces();
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
