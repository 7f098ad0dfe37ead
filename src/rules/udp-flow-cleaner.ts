import type { IpFamily } from "../services/address.ts";
import type { Binding } from "../services/service-port.ts";
import { isCommandError, toError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import {
	type ConntrackEntry,
	deletionArgs,
	parseConntrackLine,
	staleTest,
	type UdpTarget,
} from "./conntrack-entries.ts";

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

/**
 * Deletes conntrack entries that keep UDP flows on a target that is not the right one any more.
 *
 * NAT rules are asked for the first packet of a flow only, and every packet renews its entry: a client
 * that goes on sending from one socket would never see a new rule. Entries of TCP are never touched.
 */
export class UdpFlowCleaner {
	readonly #family: IpFamily;
	readonly #runner: CommandRunner;
	/** The bindings to judge entries by, another list for each change; undefined: nothing to do. */
	#current: readonly Binding[] | undefined;
	readonly #gone = new Map<string, UdpTarget>();

	constructor(family: IpFamily, runner: CommandRunner) {
		this.#family = family;
		this.#runner = runner;
	}

	/**
	 * Notes that the UDP rules of the family are others than before; {@link clean} has work then.
	 *
	 * @param current the bindings in force now.
	 * @param gone where packets were led before.
	 */
	expect(current: readonly Binding[], gone: readonly UdpTarget[]): void {
		const udp = current.filter(({ protocol }) => protocol === "udp");
		for (const target of gone) this.#remember(target);
		if (udp.length > 0 || this.#gone.size > 0) this.#current = udp;
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
			const stale = newest === current ? listed : listed.filter(this.#staleTest(newest));
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

	#staleTest(current: readonly Binding[]): (entry: ConntrackEntry) => boolean {
		return staleTest({ current, gone: [...this.#gone.values()] });
	}

	async #listStale(
		isStale: (entry: ConntrackEntry) => boolean,
		signal: AbortSignal,
	): Promise<readonly ConntrackEntry[]> {
		const groups = new Map<string, ConntrackEntry>();
		await this.#runner.run("conntrack", ["-L", "-f", this.#family, "-p", "udp"], {
			signal,
			timeoutMs: LIST_TIMEOUT_MS,
			onLine: (line) => {
				if (groups.size >= MAX_GROUPS) return;
				const entry = parseConntrackLine(line);
				if (entry === undefined || !isStale(entry)) return;
				groups.set(deletionArgs(entry, this.#family).join(" "), entry);
			},
		});
		return [...groups.values()];
	}

	/** @returns how many groups were dealt with. */
	async #delete(stale: readonly ConntrackEntry[], signal: AbortSignal): Promise<number> {
		if (stale.length === 0) return 0;
		const commands = stale.map((entry) => deletionArgs(entry, this.#family));
		try {
			await this.#runner.run("conntrack", ["-R", "-"], {
				input: commands.map((args) => `${args.join(" ")}\n`).join(""),
				signal,
				timeoutMs: DELETE_TIMEOUT_MS,
			});
			return commands.length;
		} catch (error) {
			// conntrack-tools before 1.4.6 reads no commands from a file: usage error, nothing done.
			if (!isCommandError(error, "COMMAND_FAILED") || error.exitStatus !== 2) throw error;
			return await this.#deleteOneByOne(commands.slice(0, MAX_SINGLE_GROUPS), signal);
		}
	}

	async #deleteOneByOne(
		commands: readonly (readonly string[])[],
		signal: AbortSignal,
	): Promise<number> {
		for (const args of commands) {
			try {
				await this.#runner.run("conntrack", args, { signal, timeoutMs: DELETE_TIMEOUT_MS });
			} catch (error) {
				// Status 1 with this text: the entry went by itself meanwhile.
				const isGone =
					isCommandError(error, "COMMAND_FAILED") && error.stderr.includes("0 flow entries");
				if (!isGone) throw error;
			}
		}
		return commands.length;
	}
}
