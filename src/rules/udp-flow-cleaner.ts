import { type IpFamily, parseIpAddress } from "../services/address.ts";
import { isInAnyRange } from "../services/ip-range.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../services/node-network.ts";
import { isCommandError, toError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import {
	type ConntrackEntry,
	deletionArgs,
	parseConntrackLine,
	staleTest,
} from "./conntrack-entries.ts";
import type { UdpTarget } from "./udp-targets.ts";

export type ConntrackResult =
	/** Nothing changed since the last time: nothing was looked at. */
	| { readonly state: "idle" }
	/** `deleted` groups of entries (one per virtual address and wrong target) were deleted. */
	| { readonly state: "cleaned"; readonly deleted: number }
	/** The program is not installed: old UDP flows stay on their target until they are idle. */
	| { readonly state: "absent" }
	/** Is tried again at the next call. */
	| { readonly state: "failed"; readonly error: Error };

/** Listing 250,000 entries takes about a second. */
const LIST_TIMEOUT_MS = 20_000;
/** Each deletion walks the whole connection table. */
const DELETE_TIMEOUT_MS = 60_000;

/** Groups deleted in one pass; what is over that is found again by the next pass. */
const MAX_GROUPS = 1_000;
/** The same where each group costs a process. */
const MAX_SINGLE_GROUPS = 50;
/** Old targets that are remembered while deleting fails; the oldest are forgotten. */
const MAX_GONE = 10_000;

/** Entries that one deletion ends. */
interface StaleGroup {
	/** One of them. */
	readonly entry: ConntrackEntry;
	/** Of the deletion. */
	readonly args: readonly string[];
}

/**
 * Deletes conntrack entries that keep UDP flows on a target that is not the right one any more.
 *
 * NAT rules are asked for the first packet of a flow only, and every packet renews its entry: a client
 * that goes on sending from one socket would never see a new rule. Entries of TCP are never touched.
 */
export class UdpFlowCleaner {
	readonly #family: IpFamily;
	readonly #runner: CommandRunner;
	/** What to judge entries by, another list for each change; undefined: nothing to do. */
	#current: readonly UdpTarget[] | undefined;
	#network: NodeNetwork = PLAIN_NETWORK;
	readonly #gone = new Map<string, UdpTarget>();

	constructor(family: IpFamily, runner: CommandRunner) {
		this.#family = family;
		this.#runner = runner;
	}

	/**
	 * Notes that the UDP rules of the family are others than before; {@link clean} has work then.
	 *
	 * @param current where the rules in force lead flows.
	 * @param gone where they led them before.
	 */
	expect(
		current: readonly UdpTarget[],
		gone: readonly UdpTarget[],
		network: NodeNetwork = PLAIN_NETWORK,
	): void {
		for (const target of gone) this.#remember(target);
		this.#network = network;
		if (current.length > 0 || this.#gone.size > 0) this.#current = current;
	}

	/**
	 * One listing and, where something is stale, one process that deletes it. Never rejects.
	 *
	 * Not to be called again before it has settled. {@link expect} may be: what is right by the newer
	 * rules is not deleted, and the next call looks again.
	 */
	async clean(signal: AbortSignal): Promise<ConntrackResult> {
		const current = this.#current;
		if (current === undefined) return { state: "idle" };
		try {
			const listed = await this.#listStale(this.#staleTest(current), signal);
			const newest = this.#current ?? current;
			const isStale = this.#staleTest(newest);
			const stale = newest === current ? listed : listed.filter(({ entry }) => isStale(entry));
			const deleted = await this.#delete(stale, signal);
			if (current === this.#current && deleted === listed.length && deleted < MAX_GROUPS) {
				this.#current = undefined;
				this.#gone.clear();
			}
			return { state: "cleaned", deleted };
		} catch (error) {
			if (isCommandError(error, "COMMAND_NOT_INSTALLED")) return { state: "absent" };
			return { state: "failed", error: toError(error) };
		}
	}

	#remember(target: UdpTarget): void {
		const { address, port, listenAddress = "", proxyPort } = target;
		this.#gone.set(`${address} ${port} ${listenAddress} ${proxyPort}`, target);
		const oldest = this.#gone.keys().next();
		if (this.#gone.size > MAX_GONE && oldest.done !== true) this.#gone.delete(oldest.value);
	}

	#staleTest(current: readonly UdpTarget[]): (entry: ConntrackEntry) => boolean {
		return staleTest({
			current,
			gone: [...this.#gone.values()],
			clientsAt: (source) => clientsAt(source, this.#network),
			isOwn: (address) => isOwn(address, this.#network),
		});
	}

	/** Where a policy parts the clients, what is wrong for one may be right for another. */
	#isParted({ originalDestination, originalPort }: ConntrackEntry): boolean {
		return (this.#current ?? []).some(
			({ address, port, clients }) =>
				address === originalDestination && port === originalPort && clients !== "all",
		);
	}

	async #listStale(
		isStale: (entry: ConntrackEntry) => boolean,
		signal: AbortSignal,
	): Promise<readonly StaleGroup[]> {
		const groups = new Map<string, StaleGroup>();
		await this.#runner.run("conntrack", ["-L", "-f", this.#family, "-p", "udp"], {
			signal,
			timeoutMs: LIST_TIMEOUT_MS,
			onLine: (line) => {
				if (groups.size >= MAX_GROUPS) return;
				const entry = parseConntrackLine(line);
				if (entry === undefined || !isStale(entry)) return;
				const args = deletionArgs(entry, this.#family, this.#isParted(entry));
				groups.set(args.join(" "), { entry, args });
			},
		});
		return [...groups.values()];
	}

	/** @returns how many groups were dealt with. */
	async #delete(stale: readonly StaleGroup[], signal: AbortSignal): Promise<number> {
		if (stale.length === 0) return 0;
		try {
			await this.#runner.run("conntrack", ["-R", "-"], {
				input: stale.map(({ args }) => `${args.join(" ")}\n`).join(""),
				signal,
				timeoutMs: DELETE_TIMEOUT_MS,
			});
			return stale.length;
		} catch (error) {
			// conntrack-tools before 1.4.6 reads no commands from a file: usage error, nothing done.
			if (!isCommandError(error, "COMMAND_FAILED") || error.exitStatus !== 2) throw error;
			return await this.#deleteOneByOne(stale.slice(0, MAX_SINGLE_GROUPS), signal);
		}
	}

	async #deleteOneByOne(groups: readonly StaleGroup[], signal: AbortSignal): Promise<number> {
		for (const { args } of groups) {
			try {
				await this.#runner.run("conntrack", args, { signal, timeoutMs: DELETE_TIMEOUT_MS });
			} catch (error) {
				// Status 1 with this text: the entry went by itself meanwhile.
				const isGone =
					isCommandError(error, "COMMAND_FAILED") && error.stderr.includes("0 flow entries");
				if (!isGone) throw error;
			}
		}
		return groups.length;
	}
}

/** Pods that are told by their interface cannot be told by their address. */
function clientsAt(
	source: string,
	{ addresses, pods }: NodeNetwork,
): "inside" | "outside" | undefined {
	const address = parseIpAddress(source);
	if (address === undefined) return undefined;
	if (addresses.has(address) || isInAnyRange(address, pods.ranges)) return "inside";
	return pods.interfaces.length > 0 ? undefined : "outside";
}

/** While no address of the node is known, any may be its own. */
function isOwn(text: string, { addresses }: NodeNetwork): boolean {
	const address = parseIpAddress(text);
	return addresses.size === 0 || (address !== undefined && addresses.has(address));
}
