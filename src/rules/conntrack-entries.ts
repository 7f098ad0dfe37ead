import type { IpFamily } from "../services/address.ts";
import type { UdpTarget } from "./udp-targets.ts";

/** One UDP entry of the kernel's connection table. */
export interface ConntrackEntry {
	/** The client. As conntrack prints addresses, which is how {@link IpAddress} is written. */
	readonly originalSource: string;
	readonly originalDestination: string;
	readonly originalPort: number;
	/** Where answers come from: the target of the NAT, or the original destination without NAT. */
	readonly replySource: string;
	readonly replyPort: number;
}

/** What flows there should be, to judge entries by. */
export interface UdpExpectation {
	/** Where the rules in force lead flows. */
	readonly current: readonly UdpTarget[];
	/** Where we led them before; those to an address and port of `current` are judged by that. */
	readonly gone: readonly UdpTarget[];
	/** Undefined: cannot be told. */
	clientsAt(source: string): "inside" | "outside" | undefined;
	/** Whether this node has the address. */
	isOwn(address: string): boolean;
}

/** original source, then original destination, marks, then the same of the answer. */
const ENTRY =
	/^udp .*?src=(\S+) dst=(\S+) sport=\d+ dport=(\d+) (?:.* )?src=(\S+) dst=\S+ sport=(\d+) dport=\d+/;

/** @returns undefined for a line that is not a UDP entry. */
export function parseConntrackLine(line: string): ConntrackEntry | undefined {
	const [, source, destination, port, replySource, replyPort] = ENTRY.exec(line) ?? [];
	if (source === undefined || destination === undefined || replySource === undefined) {
		return undefined;
	}
	return {
		originalSource: source,
		originalDestination: destination,
		originalPort: Number(port),
		replySource,
		replyPort: Number(replyPort),
	};
}

/**
 * Makes the test for entries that keep a flow on a wrong target.
 *
 * Stale is an entry for an address and port that we serve which does not lead to the present proxy
 * port (made before the rule was there, for another proxy port, or when the node had other addresses),
 * any entry for one that refuses now (its next packet must be a new one to be rejected), and an entry
 * for one that we do not serve any more if it leads to where we listened. All others are somebody
 * else's.
 */
export function staleTest(expectation: UdpExpectation): (entry: ConntrackEntry) => boolean {
	const wanted = bySlot(expectation.current);
	const past = bySlot(expectation.gone);
	return (entry) => {
		const slot = `${entry.originalDestination} ${entry.originalPort}`;
		const targets = wanted.get(slot);
		if (targets === undefined) {
			const targets = [...(past.get(slot) ?? []), ...(past.get(`* ${entry.originalPort}`) ?? [])];
			return targets.some((target) => leadsTo(entry, target));
		}
		const own = targets.every(({ clients }) => clients === "all")
			? targets
			: targetsFor(targets, expectation.clientsAt(entry.originalSource));
		const isRight = (target: UdpTarget): boolean =>
			target.serves &&
			leadsTo(entry, target) &&
			(target.listenAddress !== undefined || expectation.isOwn(entry.replySource));
		return own.length > 0 && !own.some(isRight);
	};
}

/** Where a client's flows belong; both targets are right for one that cannot be told. */
function targetsFor(
	targets: readonly UdpTarget[],
	at: "inside" | "outside" | undefined,
): readonly UdpTarget[] {
	return targets.filter(({ clients }) => clients === "all" || at === undefined || clients === at);
}

function bySlot(targets: readonly UdpTarget[]): ReadonlyMap<string, readonly UdpTarget[]> {
	return Map.groupBy(targets, ({ address = "*", port }) => `${address} ${port}`);
}

/**
 * The arguments of the `conntrack` call that deletes an entry, and all others that share its
 * destination and its wrong target: with thousands of clients of one Service this is one call.
 *
 * @param isOfOne only this client's: for others the target may be the right one.
 */
export function deletionArgs(
	entry: ConntrackEntry,
	family: IpFamily,
	isOfOne = false,
): readonly string[] {
	return [
		"-D",
		"-f",
		family,
		"-p",
		"udp",
		...(isOfOne ? ["--orig-src", entry.originalSource] : []),
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
	target: Pick<UdpTarget, "proxyPort" | "listenAddress">,
): boolean {
	if (entry.replyPort !== target.proxyPort) return false;
	return target.listenAddress === undefined
		? isTranslated(entry)
		: entry.replySource === target.listenAddress;
}

/** A node port that is redirected may keep its address. */
function isTranslated(entry: ConntrackEntry): boolean {
	return entry.replySource !== entry.originalDestination || entry.replyPort !== entry.originalPort;
}
