import { readFile } from "node:fs/promises";
import type { SyncMetrics } from "../observe/sync-metrics.ts";
import { toError } from "../rules/command-error.ts";
import {
	type CommandRunner,
	type CommandRunnerOptions,
	createCommandRunner,
} from "../rules/command-runner.ts";
import { findTools } from "../rules/find-tools.ts";
import { createNoRules } from "../rules/no-rules.ts";
import type { WantedRules } from "../rules/plan.ts";
import type { PreviousBinding } from "../rules/previous.ts";
import {
	createRuleKeeper,
	type FamilyOutcome,
	type RuleKeeper,
	type RulesOutcome,
} from "../rules/rule-keeper.ts";
import { chooseVariant } from "../rules/variant.ts";
import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import type { ServicePortKey } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { describeUndone, type PersistOptions, persist, type Undone } from "./persist.ts";
import type { RulesPart } from "./sync.ts";
import { tellOtherProxies } from "./tell-other-proxies.ts";

export interface RulesDriverOptions {
	readonly mode: "iptables" | "none";
	/** No other Service proxy is meant to work on this node: one that is seen is told of. */
	readonly isAlone: boolean;
	readonly env: Readonly<Record<string, string | undefined>>;
	/** See CommandRunnerOptions. */
	readonly loadSpawn?: CommandRunnerOptions["loadSpawn"];
	readonly metrics: SyncMetrics;
	readonly log: Log;
	readonly clock: Clock;
	readonly runner?: CommandRunner;
}

/** Entries of at least one family could not be deleted. */
class StaleFlowsError extends UserProxyError {
	readonly code = "STALE_FLOWS";
	readonly retriable = true;
}

/** Rules of at least one family could not be brought up to date. */
class RulesBehindError extends UserProxyError {
	readonly code = "RULES_BEHIND";
	readonly retriable = true;
}

/**
 * Drives the rule keeper for the sync: finds out which iptables to use (again and again while there is
 * none), and turns its answers into metrics, log lines and errors.
 */
export class RulesDriver implements RulesPart {
	readonly #options: RulesDriverOptions;
	readonly #runner: CommandRunner;
	readonly #toldUnserved = new Map<IpFamily, number>();
	#keeper: RuleKeeper | undefined;
	#isConntrackAbsenceTold: boolean = false;

	constructor(options: RulesDriverOptions) {
		this.#options = options;
		this.#runner = options.runner ?? createCommandRunner(options);
	}

	/** Undefined until it has been found out what this host has. */
	get keeper(): RuleKeeper | undefined {
		return this.#keeper;
	}

	/**
	 * Looks what this host has; does nothing when that is known already.
	 *
	 * Rejects while it cannot be used: no iptables, no permission, a kernel without nat.
	 */
	async open(signal: AbortSignal): Promise<RuleKeeper> {
		this.#keeper ??= await this.#open(signal);
		return this.#keeper;
	}

	/** What rules of a predecessor say; none when they cannot be read. */
	async previous(signal: AbortSignal): Promise<readonly PreviousBinding[]> {
		return this.#keeper === undefined ? [] : await this.#keeper.previous(signal);
	}

	async bringUp(wanted: WantedRules, verify: boolean, signal: AbortSignal): Promise<void> {
		const keeper = await this.open(signal);
		if (verify) await this.#timed(keeper, (own) => own.verify(signal));
		const families = await this.#timed(keeper, (own) => own.apply(wanted, signal));
		const failed = families.flatMap(({ family, result }) =>
			result.state === "failed" ? [`${family}: ${describeError(result.error)}`] : [],
		);
		if (failed.length > 0) throw new RulesBehindError(failed.join("; "));
	}

	async cleanFlows(signal: AbortSignal): Promise<void> {
		const { log } = this.#options;
		const failed: string[] = [];
		for (const { family, result } of (await this.#keeper?.cleanFlows(signal)) ?? []) {
			if (result.state === "failed") failed.push(`${family}: ${describeError(result.error)}`);
			else if (result.state === "absent") this.#tellConntrackAbsence();
			else if (result.state === "cleaned" && result.deleted > 0) {
				log.info({ family, groups: result.deleted }, "stale UDP conntrack entries deleted");
			}
		}
		if (failed.length > 0) throw new StaleFlowsError(failed.join("; "));
	}

	inForce(): ReadonlySet<ServicePortKey> {
		return this.#keeper?.inForce() ?? new Set();
	}

	/**
	 * Captures new connections no more; see RuleKeeper. Tries until it succeeds or the signal aborts:
	 * {@link remove} is to follow, and ends capture too.
	 */
	async captureOff(signal: AbortSignal): Promise<void> {
		const keeper = this.#keeper;
		if (keeper === undefined) return;
		const { log } = this.#options;
		const undone = await this.#persist(signal, {
			attempt: async () => undoneOf(await keeper.captureOff(signal)),
			failing: "cannot stop capturing new connections, trying again",
			recovered: "new connections are captured no more",
		});
		if (undone.length === 0) return;
		log.warn(
			fieldsOf(undone),
			"cannot stop capturing new connections before the rules are removed",
		);
	}

	/**
	 * Leaves no rule of ours, nor of a predecessor. Tries until it succeeds, waiting is of no use, or the
	 * signal aborts.
	 *
	 * @returns false where rules are left, or nobody can tell; the log says why and what to do.
	 */
	async remove(signal: AbortSignal): Promise<boolean> {
		const undone = await this.#persist(signal, {
			attempt: () => this.#tryToRemove(signal),
			failing: "cannot remove the packet rules, trying again",
			recovered: "the packet rules are removed",
		});
		if (undone.length === 0) return true;
		this.#options.log.error(
			{ ...fieldsOf(undone), remedy: "kube-userproxy cleanup" },
			"cannot remove the packet rules",
		);
		return false;
	}

	/** {@link cleanFlows} at a stop: what fails is only told. Never rejects. */
	async cleanFlowsForTheLastTime(signal: AbortSignal): Promise<void> {
		try {
			await this.cleanFlows(signal);
		} catch (error) {
			this.#options.log.warn(
				{ error: signal.aborted ? "conntrack did not end in time" : describeError(error) },
				"cannot delete stale UDP conntrack entries, clients may send to closed ports until they pause",
			);
		}
	}

	async #persist(
		signal: AbortSignal,
		work: Pick<PersistOptions, "attempt" | "failing" | "recovered">,
	): Promise<readonly Undone[]> {
		const { log, clock } = this.#options;
		return await persist({ ...work, signal, log, clock });
	}

	async #tryToRemove(signal: AbortSignal): Promise<readonly Undone[]> {
		let keeper: RuleKeeper;
		try {
			// It may be that the stop came before it was known: a predecessor's rules may be there.
			keeper = await this.open(signal);
		} catch (error) {
			if (meansNoRules(error)) return [];
			return IP_FAMILIES.map((family) => ({ family, error: toError(error) }));
		}
		return undoneOf(await keeper.remove(signal));
	}

	async #open(signal: AbortSignal): Promise<RuleKeeper> {
		const { mode, log } = this.#options;
		if (mode === "none") {
			log.info({ variant: "none" }, "no packet rules are kept");
			return createNoRules();
		}
		const look = { runner: this.#runner, signal, readTextFile };
		const host = await findTools(look);
		const keeper = createRuleKeeper(chooseVariant(host), this.#runner);
		const { variant, version, reason, unavailable, hasLeftovers } = keeper.facts();
		log.info({ variant, version, reason, unavailable, hasLeftovers }, "packet rules chosen");
		if (this.#options.isAlone) await tellOtherProxies(host, look, log);
		return keeper;
	}

	async #timed(
		keeper: RuleKeeper,
		work: (keeper: RuleKeeper) => Promise<{ readonly families: readonly FamilyOutcome[] }>,
	): Promise<readonly FamilyOutcome[]> {
		const { metrics, clock } = this.#options;
		const beganMs = clock.monotonicMs();
		metrics.rulesQueued(IP_FAMILIES);
		const { families } = await work(keeper);
		const durationMs = clock.monotonicMs() - beganMs;
		for (const outcome of families) this.#report(outcome, durationMs);
		return families;
	}

	#report({ family, result }: FamilyOutcome, durationMs: number): void {
		const { metrics, log } = this.#options;
		if (result.state === "unavailable") this.#tellUnserved(family, result.unserved, result.reason);
		else metrics.rulesSynced({ family, durationMs, succeeded: result.state !== "failed" });
		if (result.state === "failed") metrics.restoreFailed(family);
		if (result.state === "applied") {
			log.info({ family, rules: result.rules }, "packet rules applied");
		}
		if (result.state === "repaired") {
			metrics.driftRepaired(family);
			log.warn({ family, drift: result.drift }, "packet rules had been changed, put right");
		}
	}

	#tellUnserved(family: IpFamily, unserved: number, reason: string): void {
		if ((this.#toldUnserved.get(family) ?? 0) === unserved) return;
		this.#toldUnserved.set(family, unserved);
		const fields = { family, servicePorts: unserved, reason };
		if (unserved > 0) this.#options.log.warn(fields, "ServicePorts of a family are not captured");
		else this.#options.log.info(fields, "no ServicePort of the missing family is left");
	}

	#tellConntrackAbsence(): void {
		if (this.#isConntrackAbsenceTold) return;
		this.#isConntrackAbsenceTold = true;
		this.#options.log.warn(
			{ remedy: "install the package conntrack" },
			"conntrack is not installed: UDP clients may stay on a target that is gone until they pause",
		);
	}
}

/** On such a host this process cannot have made rules, nor take any away. */
function meansNoRules(error: unknown): boolean {
	if (!(error instanceof UserProxyError) || error.retriable) return false;
	return error.code === "NO_RULES_SUPPORT" || error.code === "COMMAND_NOT_PERMITTED";
}

function undoneOf({ families }: RulesOutcome): readonly Undone[] {
	return families.flatMap(({ family, result }) =>
		result.state === "failed" ? [{ family, error: result.error }] : [],
	);
}

function fieldsOf(undone: readonly Undone[]) {
	return { families: undone.map(({ family }) => family), error: describeUndone(undone) };
}

async function readTextFile(path: string): Promise<string | undefined> {
	try {
		return await readFile(path, "utf8");
	} catch {
		return undefined;
	}
}
