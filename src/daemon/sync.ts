import type { RelayEngine } from "../proxies/engine.ts";
import type { WantedRules } from "../rules/plan.ts";
import { keepClusterIps, NO_CLUSTER_IPS } from "../services/cluster-ips.ts";
import type { NodeNetwork } from "../services/node-network.ts";
import type { Snapshot } from "../services/objects.ts";
import type { ServicePortPlan } from "../services/plan-service-ports.ts";
import type { Binding, ServicePort, ServicePortKey } from "../services/service-port.ts";
import { Backoff } from "../shared/backoff.ts";
import { BoundedRunner } from "../shared/bounded-runner.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";

/** What the sync needs of the rules; see rules-driver.ts. */
export interface RulesPart {
	/**
	 * Brings the rules up to what is wanted, after a look whether somebody changed them if `verify`.
	 *
	 * Rejects when that was not possible for some family; the old rules are in force there.
	 */
	bringUp(wanted: WantedRules, verify: boolean, signal: AbortSignal): Promise<void>;
	/**
	 * Frees UDP clients that the kernel still leads to where rules until now led them.
	 *
	 * Rejects when that was not possible for some family; to be called again.
	 */
	cleanFlows(signal: AbortSignal): Promise<void>;
	/** The ServicePorts that rules in force may lead to. */
	inForce(): ReadonlySet<ServicePortKey>;
}

export interface SyncOptions {
	/** Undefined until every source has delivered its first complete state. */
	snapshot(): Snapshot | undefined;
	plan(snapshot: Snapshot): ServicePortPlan;
	/** Called with each new plan before it is acted on: warnings, metrics. */
	onPlan(plan: ServicePortPlan): void;
	/** Called whenever all that is wanted has been found or brought into force; never after stop(). */
	onInForce(): void;
	readonly engine: RelayEngine;
	/** What the rules have to know of the node, the same object while it means the same. */
	network(): NodeNetwork;
	readonly rules: RulesPart;
	readonly rulesMinIntervalMs: number;
	/** The model is looked at again at the latest after this, in milliseconds. */
	readonly modelPeriodMs: number;
	readonly log: Log;
	readonly clock: Clock;
}

export interface SyncState {
	/** Since when a wanted change waits to be in force, failed tries included; monotonic ms. */
	readonly unappliedSinceMs: number | undefined;
	readonly runners: readonly RunnerState[];
	/** When the listeners last took over the newest state, in milliseconds since the epoch. */
	readonly modelDoneAtMs: number | undefined;
	/** When the rules were last found or made to be as wanted, by either clock. */
	readonly rulesDoneAt: { readonly wallMs: number; readonly monotonicMs: number } | undefined;
	readonly rulesProblem: string | undefined;
	readonly servicePorts: readonly ServicePort[];
	readonly bindings: readonly Binding[];
	/** ServicePorts without a listener, and why. */
	readonly listenProblems: ReadonlyMap<ServicePortKey, string>;
}

/** Of a sync that has not been made yet. */
export const NO_SYNC: SyncState = {
	unappliedSinceMs: undefined,
	runners: [],
	modelDoneAtMs: undefined,
	rulesDoneAt: undefined,
	rulesProblem: undefined,
	servicePorts: [],
	bindings: [],
	listenProblems: new Map(),
};

interface RunnerState {
	readonly name: "model" | "rules";
	/** Monotonic ms, both. */
	readonly queuedSinceMs: number | undefined;
	readonly runningSinceMs: number | undefined;
}

/** Some listeners could not be opened: the others serve, these are tried again. */
class ListenersMissingError extends UserProxyError {
	readonly code = "LISTENERS_MISSING";
	readonly retriable = true;
}

/** Events that come together, of Services and of EndpointSlices, are served by one pass. */
const GATHER_MS = 10;

/** The model's passes are this far apart under a steady stream of events. */
const MODEL_MIN_INTERVAL_MS = 100;

/**
 * The sync at its two paces, make before break; ARCHITECTURE.md tells why there are two.
 *
 * The model pass hands the newest ServicePorts to the engine. The rules pass brings the packet
 * rules up to the engine's bindings. After it, and waited for by neither pass, UDP flows are freed from
 * old targets; then the engine may close what no rule points at any more.
 */
export class Sync {
	readonly #options: SyncOptions;
	readonly #model: BoundedRunner;
	readonly #rules: BoundedRunner;
	readonly #flows: BoundedRunner;
	readonly #modelFailure: RecurringFailure;
	readonly #rulesFailure: RecurringFailure;
	readonly #flowsFailure: RecurringFailure;
	#listenProblems: ReadonlyMap<ServicePortKey, string> = new Map();
	#plan: ServicePortPlan | undefined;
	#servicePorts: readonly ServicePort[] = [];
	#wanted: WantedRules | undefined;
	#isVerifyDue: boolean = false;
	#isRetireDue: boolean = false;
	#isStopped: boolean = false;
	#unappliedSinceMs: number | undefined;
	#modelDoneAtMs: number | undefined;
	#rulesDoneAt: SyncState["rulesDoneAt"];

	constructor(options: SyncOptions) {
		const { log, clock } = options;
		const now = (): number => clock.monotonicMs();
		this.#options = options;
		this.#modelFailure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "cannot open every proxy listener, trying again",
			recovered: "every proxy listener is open",
		});
		this.#rulesFailure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "cannot bring the packet rules up to date, trying again",
			recovered: "the packet rules are up to date",
		});
		this.#flowsFailure = new RecurringFailure({
			log,
			clock,
			failing: "cannot delete stale UDP conntrack entries, trying again",
			recovered: "stale UDP conntrack entries are deleted again",
		});
		this.#model = new BoundedRunner({
			run: () => this.#modelPass(),
			onFailure: (error) => this.#modelFailure.failed(describeError(error)),
			minIntervalMs: MODEL_MIN_INTERVAL_MS,
			burst: 2,
			gatherMs: GATHER_MS,
			maxIntervalMs: options.modelPeriodMs,
			now,
		});
		this.#rules = new BoundedRunner({
			run: (signal) => this.#rulesPass(signal),
			onFailure: (error) => this.#rulesFailure.failed(describeError(error)),
			minIntervalMs: options.rulesMinIntervalMs,
			burst: 2,
			retry: new Backoff({ initialMs: 500, maxMs: 15_000, factor: 2, jitter: 0.2 }),
			now,
		});
		this.#flows = new BoundedRunner({
			run: (signal) => this.#flowsPass(signal),
			onFailure: (error) => this.#flowsFailure.failed(describeError(error)),
			minIntervalMs: 0,
			burst: 1,
			retry: new Backoff({ initialMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.2 }),
			now,
		});
	}

	/** A source or an address of the node changed. */
	request(): void {
		this.#model.request();
	}

	/** The kernel's rules are to be compared with what was applied, soon. */
	requestVerify(): void {
		// Before the first model pass the predecessor's rules stay untouched.
		if (this.#wanted === undefined) return;
		this.#isVerifyDue = true;
		this.#rules.request();
	}

	/** No pass begins after this; the present ones are ended, and it resolves when they have settled. */
	async stop(): Promise<void> {
		this.#isStopped = true;
		await Promise.all([this.#model.stop(), this.#rules.stop(), this.#flows.stop()]);
	}

	state(): SyncState {
		return {
			unappliedSinceMs: this.#unappliedSinceMs,
			runners: [
				{
					name: "model",
					queuedSinceMs: this.#model.queuedSinceMs(),
					runningSinceMs: this.#model.runningSinceMs(),
				},
				{
					name: "rules",
					// A failed pass waits for its retry on purpose: that is "late", not "hung".
					queuedSinceMs:
						this.#rulesFailure.problem === undefined ? this.#rules.queuedSinceMs() : undefined,
					runningSinceMs: this.#rules.runningSinceMs(),
				},
			],
			modelDoneAtMs: this.#modelDoneAtMs,
			rulesDoneAt: this.#rulesDoneAt,
			rulesProblem: this.#rulesFailure.problem,
			servicePorts: this.#servicePorts,
			bindings: this.#wanted?.bindings ?? [],
			listenProblems: this.#listenProblems,
		};
	}

	async #modelPass(): Promise<void> {
		const { engine, clock } = this.#options;
		const snapshot = this.#options.snapshot();
		if (snapshot === undefined) return;
		const plan = this.#options.plan(snapshot);
		if (plan !== this.#plan) this.#options.onPlan(plan);
		this.#plan = plan;
		const { bindings, problems } = await engine.reconcile(plan.servicePorts);
		this.#servicePorts = plan.servicePorts;
		this.#listenProblems = new Map(problems.map(({ key, error }) => [key, describeError(error)]));
		this.#modelDoneAtMs = clock.wallMs();
		this.#bringUp(bindings, plan);
		const [first] = problems;
		if (first === undefined) {
			this.#modelFailure.succeeded();
			return;
		}
		const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
		throw new ListenersMissingError(`${first.name}: ${describeError(first.error)}${more}`);
	}

	/** Planning rules for thousands of ServicePorts is work; most updates of objects do not need it. */
	#bringUp(bindings: readonly Binding[], plan: ServicePortPlan): void {
		const { clock } = this.#options;
		const network = this.#options.network();
		const before = this.#wanted;
		const clusterIps = keepClusterIps(before?.clusterIps ?? NO_CLUSTER_IPS, plan.clusterIps);
		const ports = plan.healthChecks.map(({ port }) => port);
		const isSamePorts =
			before?.healthCheckPorts.length === ports.length &&
			ports.every((port, index) => port === before.healthCheckPorts[index]);
		const isSameElse =
			bindings === before?.bindings &&
			network === before.network &&
			clusterIps === before.clusterIps;
		const isNews = !isSameElse || !isSamePorts;
		if (isNews) this.#wanted = { bindings, network, healthCheckPorts: ports, clusterIps };
		if (isNews || this.#unappliedSinceMs !== undefined) {
			this.#unappliedSinceMs ??= clock.monotonicMs();
			this.#rules.request();
		} else {
			this.#tellInForce();
		}
	}

	#tellInForce(): void {
		if (!this.#isStopped) this.#options.onInForce();
	}

	async #rulesPass(signal: AbortSignal): Promise<void> {
		const { rules, clock } = this.#options;
		const wanted = this.#wanted;
		if (wanted === undefined) return;
		const isVerifyDue = this.#isVerifyDue;
		this.#isVerifyDue = false;
		try {
			await rules.bringUp(wanted, isVerifyDue, signal);
			// Not after a failure: what rules of a predecessor or of the old plan lead to stays open.
			this.#isRetireDue = true;
		} finally {
			// After a failure too: it may be that of one family, and the other's rules are new.
			this.#flows.request();
		}
		// What came meanwhile has asked for a pass of its own.
		if (this.#wanted === wanted) this.#unappliedSinceMs = undefined;
		this.#rulesDoneAt = { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() };
		this.#rulesFailure.succeeded();
		this.#tellInForce();
	}

	/** conntrack may take seconds on a large table, or hang: nothing but this waits for it. */
	async #flowsPass(signal: AbortSignal): Promise<void> {
		const { rules, engine } = this.#options;
		const isRetireDue = this.#isRetireDue;
		this.#isRetireDue = false;
		try {
			await rules.cleanFlows(signal);
			this.#flowsFailure.succeeded();
		} finally {
			// After the cleaning: until then UDP clients may still be led to a listener that is to close.
			if (isRetireDue && !this.#isStopped) engine.retire(rules.inForce());
		}
	}
}
