import { existsSync, readdirSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { readWaitingSockets, type WaitingSocket } from "./host-ports.ts";
import type { Interfaces, Link } from "./node-network.ts";

/** What the kernel says of this node's network; tests put another one in its place. */
export interface NodeSystem {
	/** Throws where the kernel does not answer, for want of a descriptor above all. */
	interfaces(): Interfaces;
	/** /proc/net/route; empty where there is none. */
	routes(): string;
	/** Names of all interfaces; empty where they cannot be listed. */
	linkNames(): readonly string[];
	/** Those of the names that packets come in on by themselves. */
	links(names: readonly string[]): readonly Link[];
	waitingSockets(): readonly WaitingSocket[];
}

const FLAG_UP = 0x1;
const FLAG_LOOPBACK = 0x8;

/** The network namespace of this process, as /proc and /sys show it. */
export const nodeSystem: NodeSystem = {
	interfaces: networkInterfaces,
	routes: () => readOr("/proc/net/route", ""),
	linkNames: () => {
		try {
			return readdirSync("/sys/class/net");
		} catch {
			return [];
		}
	},
	links: (names) =>
		names.flatMap((name) => {
			const flags = Number(readOr(`/sys/class/net/${name}/flags`, "0"));
			const isOwn = (flags & FLAG_UP) !== 0 && (flags & FLAG_LOOPBACK) === 0;
			// Of a part of a bridge or bond, packets come in on the whole.
			if (!isOwn || existsSync(`/sys/class/net/${name}/master`)) return [];
			const disabled = readOr(`/proc/sys/net/ipv6/conf/${name}/disable_ipv6`, "1").trim();
			return [{ name, hasIpv6: disabled === "0" }];
		}),
	waitingSockets: readWaitingSockets,
};

function readOr(path: string, otherwise: string): string {
	try {
		return readFileSync(path, "utf8");
	} catch {
		return otherwise;
	}
}
