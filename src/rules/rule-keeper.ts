import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import { NO_CLUSTER_IPS } from "../services/cluster-ips.ts";
import { PLAIN_NETWORK } from "../services/node-network.ts";
import type { ServicePortKey } from "../services/service-port.ts";
import { toError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import { FamilyRules } from "./family-rules.ts";
import { type FamilyPlan, planRules, type WantedRules, withoutCapture } from "./plan.ts";
import type { PreviousBinding } from "./previous.ts";
import { removalText } from "./restore-text.ts";
import { Turns } from "./turns.ts";
import type { ConntrackResult } from "./udp-flow-cleaner.ts";
import type { ChosenVariant } from "./variant.ts";
import { readSavedRules, restoreRules, type XtablesTools } from "./xtables.ts";

/**
 * Keeps the packet rules of this node: what the daemon drives. Has no timers and writes no log.
 *
 * Calls may overlap; they are done one after the other. {@link RuleKeeper.cleanFlows} is beside them:
 * no change of the rules waits for it.
 */
export interface RuleKeeper {
	facts(): RulesFacts;

	/**
	 * Makes the kernel hold the wanted rules, each family for itself; runs nothing where
	 * they are in force already. Never rejects: what failed is in the answer, keeps its old state in
	 * force, and is tried again by the next call.
	 *
	 */
	apply(wanted: WantedRules, signal: AbortSignal): Promise<RulesOutcome>;

	/** Looks whether the rules are as {@link apply} left them, and puts them right. Never rejects. */
	verify(signal: AbortSignal): Promise<RulesOutcome>;

	/** ServicePorts that rules in force may lead to: after a failure, those of the old and the new plan. */
	inForce(): ReadonlySet<ServicePortKey>;

	/**
	 * Captures no new connection from now on. Established ones go on: their NAT is in conntrack, and the
	 * rules that let them in stay until {@link remove}. Never rejects.
	 */
	captureOff(signal: AbortSignal): Promise<RulesOutcome>;

	/** Leaves no rule or chain of ours, in either variant. May be called again. Never rejects. */
	remove(signal: AbortSignal): Promise<RulesOutcome>;

	/**
	 * Deletes conntrack entries of UDP flows that changes of the rules until now have made stale; runs
	 * nothing where none did. What fails is tried again by the next call. Never rejects.
	 */
	cleanFlows(signal: AbortSignal): Promise<readonly FlowsOutcome[]>;

	/**
	 * What rules in the kernel, a predecessor's, say about who listens where; to be called before the
	 * first {@link apply}. A family that cannot be read has none. Never rejects.
	 */
	previous(signal: AbortSignal): Promise<readonly PreviousBinding[]>;
}

export interface RulesOutcome {
	/** In the order IPv4, IPv6. */
	readonly families: readonly FamilyOutcome[];
}

export interface FamilyOutcome {
	readonly family: IpFamily;
	readonly result: FamilyResult;
}

/** What was done about the UDP flows of one family. */
interface FlowsOutcome {
	readonly family: IpFamily;
	readonly result: ConntrackResult;
}

type FamilyResult =
	/** In force as it was; nothing was changed. */
	| { readonly state: "intact" }
	/** New rules are in force. */
	| { readonly state: "applied"; readonly rules: number }
	/** Somebody had changed them; they are right again. */
	| { readonly state: "repaired"; readonly drift: readonly string[] }
	/** The old rules are in force, unless `error` says otherwise; the next call tries again. */
	| { readonly state: "failed"; readonly error: Error }
	/** This host cannot have rules of this family; so many bindings would need them. */
	| { readonly state: "unavailable"; readonly reason: string; readonly unserved: number };

export interface RulesFacts {
	/** "nft" or "legacy"; "none" where no rules are kept. */
	readonly variant: "nft" | "legacy" | "none";
	readonly version: string | undefined;
	/** Why this variant. */
	readonly reason: string;
	/** Families without rules, and why. */
	readonly unavailable: readonly { readonly family: IpFamily; readonly reason: string }[];
	/** True while chains of ours are left in the variant that is not used. */
	readonly hasLeftovers: boolean;
	readonly ruleCount: number;
	/** Since the start. */
	readonly applies: number;
	readonly failures: number;
	readonly repairs: number;
	readonly deletedFlowGroups: number;
	/** Times that stale UDP flows could not be deleted, the missing program counted too. */
	readonly conntrackFailures: number;
}

/** @param chosen what {@link chooseVariant} decided at start. */
export function createRuleKeeper(chosen: ChosenVariant, runner: CommandRunner): RuleKeeper {
	return new IptablesKeeper(chosen, runner);
}

const NOTHING_WANTED: WantedRules = {
	bindings: [],
	network: PLAIN_NETWORK,
	healthCheckPorts: [],
	clusterIps: NO_CLUSTER_IPS,
};

type FamilyWork = (rules: FamilyRules, family: IpFamily) => Promise<FamilyResult>;

class IptablesKeeper implements RuleKeeper {
	readonly #chosen: ChosenVariant;
	readonly #runner: CommandRunner;
	readonly #rules = new Map<IpFamily, FamilyRules>();
	#leftovers: readonly XtablesTools[];
	#unserved: ReadonlyMap<IpFamily, number> = new Map();
	/** Two restores of ours at once would each repair what the other has half done. */
	readonly #turns = new Turns();
	readonly #flowTurns = new Turns();
	readonly #counts = {
		applies: 0,
		failures: 0,
		repairs: 0,
		deletedFlowGroups: 0,
		conntrackFailures: 0,
	};

	constructor(chosen: ChosenVariant, runner: CommandRunner) {
		this.#chosen = chosen;
		this.#runner = runner;
		this.#leftovers = chosen.leftovers;
		for (const family of IP_FAMILIES) {
			const support = chosen.families[family];
			if (support.state === "available") {
				this.#rules.set(family, new FamilyRules(support.tools, runner));
			}
		}
	}

	facts(): RulesFacts {
		const { variant, version, reason, families } = this.#chosen;
		const plans = [...this.#rules.values()].map(({ plan }) => plan);
		return {
			variant,
			version,
			reason,
			unavailable: IP_FAMILIES.flatMap((family) => {
				const support = families[family];
				return support.state === "available" ? [] : [{ family, reason: support.reason }];
			}),
			hasLeftovers: this.#leftovers.length > 0,
			ruleCount: plans.reduce((sum, plan) => sum + (plan === undefined ? 0 : countRules(plan)), 0),
			...this.#counts,
		};
	}

	async apply(wanted: WantedRules, signal: AbortSignal): Promise<RulesOutcome> {
		return await this.#turns.take(async () => {
			this.#unserved = Map.groupBy(wanted.bindings, ({ family }) => family)
				.entries()
				.reduce((counts, [family, own]) => counts.set(family, own.length), new Map());
			const outcome = await this.#eachFamily(async (rules, family) => {
				const plan = planRules(wanted, family);
				return (await rules.apply(plan, signal))
					? { state: "applied", rules: countRules(plan) }
					: { state: "intact" };
			});
			if (outcome.families.every(({ result }) => result.state !== "failed")) {
				await this.#removeLeftovers(signal);
			}
			return outcome;
		});
	}

	async verify(signal: AbortSignal): Promise<RulesOutcome> {
		return await this.#turns.take(() =>
			this.#eachFamily(async (rules) => {
				const drift = await rules.verify(signal);
				return drift.length === 0 ? { state: "intact" } : { state: "repaired", drift };
			}),
		);
	}

	inForce(): ReadonlySet<ServicePortKey> {
		return [...this.#rules.values()].reduce<ReadonlySet<ServicePortKey>>(
			(all, { inForce }) => all.union(inForce),
			new Set(),
		);
	}

	async captureOff(signal: AbortSignal): Promise<RulesOutcome> {
		return await this.#turns.take(() =>
			this.#eachFamily(async (rules, family) => {
				const plan = withoutCapture(rules.plan ?? planRules(NOTHING_WANTED, family));
				return (await rules.apply(plan, signal))
					? { state: "applied", rules: countRules(plan) }
					: { state: "intact" };
			}),
		);
	}

	async remove(signal: AbortSignal): Promise<RulesOutcome> {
		return await this.#turns.take(async () => {
			const { families } = await this.#eachFamily(async (rules) => {
				await rules.remove(signal);
				return { state: "applied", rules: 0 };
			});
			const errors = await this.#removeLeftovers(signal);
			return {
				families: families.map((outcome) => {
					const error = errors.get(outcome.family);
					const isFine = error === undefined || outcome.result.state === "failed";
					return isFine ? outcome : { ...outcome, result: { state: "failed", error } };
				}),
			};
		});
	}

	async cleanFlows(signal: AbortSignal): Promise<readonly FlowsOutcome[]> {
		return await this.#flowTurns.take(() =>
			Promise.all(
				[...this.#rules].map(async ([family, rules]) => {
					const result = await rules.cleanFlows(signal);
					this.#countFlows(result);
					return { family, result };
				}),
			),
		);
	}

	async previous(signal: AbortSignal): Promise<readonly PreviousBinding[]> {
		return await this.#turns.take(async () => {
			const all = await Promise.allSettled(
				[...this.#rules.values()].map((rules) => rules.previous(signal)),
			);
			return all.flatMap((settled) => (settled.status === "fulfilled" ? settled.value : []));
		});
	}

	async #eachFamily(work: FamilyWork): Promise<RulesOutcome> {
		const families = await Promise.all(IP_FAMILIES.map((family) => this.#oneFamily(family, work)));
		return { families };
	}

	async #oneFamily(family: IpFamily, work: FamilyWork): Promise<FamilyOutcome> {
		const support = this.#chosen.families[family];
		const rules = this.#rules.get(family);
		if (rules === undefined || support.state === "unavailable") {
			const reason = support.state === "unavailable" ? support.reason : "";
			const unserved = this.#unserved.get(family) ?? 0;
			return { family, result: { state: "unavailable", reason, unserved } };
		}
		let result: FamilyResult;
		try {
			result = await work(rules, family);
		} catch (error) {
			result = {
				state: "failed",
				error: toError(error),
			};
		}
		if (result.state === "failed") this.#counts.failures += 1;
		if (result.state === "applied") this.#counts.applies += 1;
		if (result.state === "repaired") this.#counts.repairs += 1;
		return { family, result };
	}

	#countFlows(result: ConntrackResult): void {
		if (result.state === "cleaned") this.#counts.deletedFlowGroups += result.deleted;
		if (result.state === "failed" || result.state === "absent") {
			this.#counts.conntrackFailures += 1;
		}
	}

	/**
	 * Only after our rules are in force: until then the old ones may be what serves clients.
	 *
	 * @returns what could not be removed; facts() shows it, and it is tried again after the next apply.
	 */
	async #removeLeftovers(signal: AbortSignal): Promise<ReadonlyMap<IpFamily, Error>> {
		const left: XtablesTools[] = [];
		const errors = new Map<IpFamily, Error>();
		for (const tools of this.#leftovers) {
			try {
				const saved = await readSavedRules(this.#runner, tools, signal);
				await restoreRules(this.#runner, tools, removalText(saved), signal);
			} catch (error) {
				left.push(tools);
				errors.set(tools.family, toError(error));
			}
		}
		this.#leftovers = left;
		return errors;
	}
}

function countRules(plan: FamilyPlan): number {
	return [...plan.chains.values()].reduce((sum, rules) => sum + rules.length, 0);
}
