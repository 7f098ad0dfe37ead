import type { IpFamily } from "../services/address.ts";
import type { Binding } from "../services/service-port.ts";

/** One UDP entry of the kernel's connection table. */
export interface ConntrackEntry {
	/** As conntrack prints addresses, which is how {@link IpAddress} is written. */
	readonly originalDestination: string;
	readonly originalPort: number;
	/** Where answers come from: the target of the NAT, or the original destination without NAT. */
	readonly replySource: string;
	readonly replyPort: number;
}

/** Where packets for one virtual address and port were led to. */
export interface UdpTarget {
	readonly address: string;
	readonly port: number;
	readonly proxyPort: number;
	/** Undefined: any address of the node. */
	readonly listenAddress: string | undefined;
}

/** What flows there should be, to judge entries by. */
export interface UdpExpectation {
	/** The bindings in force; those that are not UDP are left out. */
	readonly current: readonly Binding[];
	/** Where we led packets before; those of addresses that are in `current` are judged by that. */
	readonly gone: readonly UdpTarget[];
}

/** original source, then original destination, marks, then the same of the answer. */
const ENTRY =
	/^udp .* dst=(\S+) sport=\d+ dport=(\d+) (?:.* )?src=(\S+) dst=\S+ sport=(\d+) dport=\d+/;

/** @returns undefined for a line that is not a UDP entry. */
export function parseConntrackLine(line: string): ConntrackEntry | undefined {
	const [, destination, port, replySource, replyPort] = ENTRY.exec(line) ?? [];
	if (destination === undefined || replySource === undefined) return undefined;
	return {
		originalDestination: destination,
		originalPort: Number(port),
		replySource,
		replyPort: Number(replyPort),
	};
}

/**
 * Makes the test for entries that keep a flow on a wrong target.
 *
 * Stale is an entry for a virtual address and port that we serve which does not lead to the present
 * proxy port (made before the rule was there, or for another proxy port), any entry for one that
 * refuses now (its next packet must be a new one to be rejected), and an entry for one that we do not
 * serve any more if it leads to where we listened. All others are somebody else's.
 */
export function staleTest({ current, gone }: UdpExpectation): (entry: ConntrackEntry) => boolean {
	const wanted = new Map<string, Binding>();
	for (const binding of current) {
		if (binding.protocol !== "udp") continue;
		for (const { address } of binding.virtualAddresses) {
			wanted.set(`${address} ${binding.port}`, binding);
		}
	}
	const past = new Map<string, UdpTarget[]>();
	for (const target of gone) {
		const id = `${target.address} ${target.port}`;
		const targets = past.get(id);
		if (targets === undefined) past.set(id, [target]);
		else targets.push(target);
	}
	return (entry) => {
		const id = `${entry.originalDestination} ${entry.originalPort}`;
		const binding = wanted.get(id);
		if (binding !== undefined) return binding.refuses || !leadsTo(entry, binding);
		return past.get(id)?.some((target) => leadsTo(entry, target)) ?? false;
	};
}

/** The stale ones of a listing. */
export function staleUdpEntries(
	entries: readonly ConntrackEntry[],
	expectation: UdpExpectation,
): readonly ConntrackEntry[] {
	return entries.filter(staleTest(expectation));
}

/**
 * The arguments of the `conntrack` call that deletes an entry, and all others that share its
 * virtual address and its wrong target: with thousands of clients of one Service this is one call.
 */
export function deletionArgs(entry: ConntrackEntry, family: IpFamily): readonly string[] {
	return [
		"-D",
		"-f",
		family,
		"-p",
		"udp",
		"--orig-dst",
		entry.originalDestination,
		"--dport",
		String(entry.originalPort),
		"--reply-src",
		entry.replySource,
		"--reply-port-src",
		String(entry.replyPort),
	];
}

function leadsTo(
	entry: ConntrackEntry,
	target: { readonly proxyPort: number; readonly listenAddress: string | undefined },
): boolean {
	if (entry.replyPort !== target.proxyPort) return false;
	return target.listenAddress === undefined
		? entry.replySource !== entry.originalDestination
		: entry.replySource === target.listenAddress;
}
