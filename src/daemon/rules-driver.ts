import { readFile } from "node:fs/promises";
import type { SyncMetrics } from "../observe/sync-metrics.ts";
import { type CommandRunner, createCommandRunner } from "../rules/command-runner.ts";
import { findTools } from "../rules/find-tools.ts";
import { createNoRules } from "../rules/no-rules.ts";
import type { PreviousBinding } from "../rules/previous.ts";
import { createRuleKeeper, type FamilyOutcome, type RuleKeeper } from "../rules/rule-keeper.ts";
import { chooseVariant } from "../rules/variant.ts";
import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import type { Binding, ServicePortKey } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import type { RulesPart } from "./sync.ts";

export interface RulesDriverOptions {
	readonly mode: "iptables" | "none";
	readonly env: Readonly<Record<string, string | undefined>>;
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
		this.#runner = options.runner ?? createCommandRunner(options.env);
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

	async bringUp(bindings: readonly Binding[], verify: boolean, signal: AbortSignal): Promise<void> {
		const keeper = await this.open(signal);
		if (verify) await this.#timed(keeper, (own) => own.verify(signal));
		const families = await this.#timed(keeper, (own) => own.apply(bindings, signal));
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

	/** New connections are captured no more; see RuleKeeper. */
	async captureOff(signal: AbortSignal): Promise<void> {
		await this.#atStop((keeper) => keeper.captureOff(signal));
	}

	/** Leaves no rule of ours. */
	async remove(signal: AbortSignal): Promise<void> {
		await this.#atStop((keeper) => keeper.remove(signal));
	}

	async #open(signal: AbortSignal): Promise<RuleKeeper> {
		const { mode, log } = this.#options;
		if (mode === "none") {
			log.info({ variant: "none" }, "no packet rules are kept");
			return createNoRules();
		}
		const host = await findTools({ runner: this.#runner, signal, readTextFile });
		const keeper = createRuleKeeper(chooseVariant(host), this.#runner);
		const { variant, version, reason, unavailable, hasLeftovers } = keeper.facts();
		log.info({ variant, version, reason, unavailable, hasLeftovers }, "packet rules chosen");
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

	async #atStop(
		work: (keeper: RuleKeeper) => Promise<{ readonly families: readonly FamilyOutcome[] }>,
	): Promise<void> {
		if (this.#keeper === undefined) return;
		const { families } = await work(this.#keeper);
		for (const { family, result } of families) {
			if (result.state !== "failed") continue;
			this.#options.log.error(
				{ family, error: describeError(result.error), remedy: "kube-userproxy cleanup" },
				"cannot remove the packet rules",
			);
		}
	}
}

async function readTextFile(path: string): Promise<string | undefined> {
	try {
		return await readFile(path, "utf8");
	} catch {
		return undefined;
	}
}
