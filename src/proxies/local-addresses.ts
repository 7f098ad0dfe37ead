import { networkInterfaces } from "node:os";

import { type IpAddress, parseIpAddress } from "../services/address.ts";

/** Reading takes up to a millisecond on a node with hundreds of interfaces. */
const READ_AGAIN_MS = 1000;

/**
 * The addresses that this node has, as of a second ago at most. Where they cannot be read, which takes a
 * file descriptor, those that were read last still count.
 */
export class LocalAddresses {
	readonly #now: () => number;
	readonly #read: typeof networkInterfaces;
	#addresses: ReadonlySet<IpAddress> = new Set();
	#readAtMs = Number.NEGATIVE_INFINITY;

	/** @param now monotonic milliseconds. */
	constructor(now: () => number, read = networkInterfaces) {
		this.#now = now;
		this.#read = read;
	}

	has(address: IpAddress): boolean {
		if (this.#now() - this.#readAtMs >= READ_AGAIN_MS) {
			this.#readAtMs = this.#now();
			this.#addresses = this.#readAll() ?? this.#addresses;
		}
		return this.#addresses.has(address);
	}

	#readAll(): ReadonlySet<IpAddress> | undefined {
		try {
			const all = Object.values(this.#read()).flatMap((each) => each ?? []);
			return new Set(
				all.map((each) => parseIpAddress(each.address)).filter((each) => each !== undefined),
			);
		} catch {
			return undefined;
		}
	}
}
