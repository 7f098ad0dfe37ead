import { applyChanges } from "../config/changes.ts";
import type { Config } from "../config/config.ts";
import { judgeHealth } from "../observe/health.ts";
import { type HttpServers, startHttpServers } from "../observe/http-server.ts";
import { createMetrics, type Metrics } from "../observe/metrics.ts";
import {
	createServiceHealthServers,
	type ServiceHealthServers,
} from "../observe/service-health.ts";
import { SystemdNotifier } from "../observe/systemd.ts";
import { planDescriptors } from "../proxies/descriptor-budget.ts";
import { readDescriptorLimit } from "../proxies/descriptor-limit.ts";
import type { LiveConnection, RelayEngine } from "../proxies/engine.ts";
import { createCommandRunner } from "../rules/command-runner.ts";
import type { Snapshot } from "../services/objects.ts";
import { createServicePortPlanner, type ServicePortPlan } from "../services/plan-service-ports.ts";
import { systemClock } from "../shared/clock.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { Source } from "../sources/source.ts";
import { adjustConntrack } from "./adjust-conntrack.ts";
import type { Daemon, DaemonOptions } from "./contract.ts";
import { openEngine } from "./engine.ts";
import { loadSpawnProgram } from "./load-spawn.ts";
import { NO_LOCK, type NodeLock, takeNodeLock } from "./node-lock.ts";
import { NodeWatch } from "./node-watch.ts";
import { createObservation, engineHooks, type Observation } from "./observation.ts";
import { adjustOomScore } from "./oom-score.ts";
import { PlanNotices } from "./plan-notices.ts";
import {
	type DaemonFacts,
	healthFacts,
	metricsFacts,
	type RelayFacts,
	statusReport,
} from "./reports.ts";
import { Rounds } from "./rounds.ts";
import { RulesDriver } from "./rules-driver.ts";
import { countChanges } from "./snapshot-changes.ts";
import { createSnapshotMerger, createSources } from "./sources.ts";
import { type StopResult, stopServing } from "./stop-serving.ts";
import { NO_SYNC, Sync } from "./sync.ts";

/*
 * daemon/ puts the rooms together and drives them: sources → services → proxies → rules, at the two
 * paces of sync.ts. This file is the composition and the order of start (stop-serving.ts has that of
 * a stop); it is the only one that knows all rooms. Nothing here decides about objects, endpoints,
 * sockets or rules.
 */

const NOTIFY_TIMEOUT_MS = 5_000;

const FLUSH_LOG_TIMEOUT_MS = 2_000;

const NOTHING_STARTED: StopResult = { rulesAreGone: true };

/** Starts the daemon and returns at once; what goes wrong rejects `ended`. */
export function startDaemon(config: Config, options: DaemonOptions): Daemon {
	return new NodeDaemon(config, options);
}

/** What exists once the start is over. */
interface Running {
	readonly engine: RelayEngine;
	readonly fallbackReason: string | undefined;
	readonly sync: Sync;
	readonly sources: readonly Source[];
	readonly node: NodeWatch;
	readonly serviceHealth: ServiceHealthServers;
}

class NodeDaemon implements Daemon {
	readonly ended: Promise<StopResult>;
	readonly #options: DaemonOptions;
	readonly #observation: Observation;
	readonly #metrics: Metrics;
	readonly #rules: RulesDriver;
	readonly #notifier: SystemdNotifier;
	/** Aborts when a stop begins. */
	readonly #abort = new AbortController();
	readonly #stop = Promise.withResolvers<void>();
	readonly #hurry = Promise.withResolvers<void>();
	readonly #startedAtMs = systemClock.wallMs();
	#config: Config;
	#running: Running | undefined;
	#lock: NodeLock | undefined;
	#http: HttpServers | undefined;
	#plan: ServicePortPlan | undefined;
	#rounds: Rounds | undefined;
	#isReady: boolean = false;
	#stopReason: string | undefined;

	constructor(config: Config, options: DaemonOptions) {
		this.#config = config;
		this.#options = options;
		this.#observation = createObservation(config);
		const { log } = this.#observation;
		this.#metrics = createMetrics({
			version: options.version,
			facts: async () => metricsFacts(this.#facts(), await this.#failingEndpoints()),
			liveConnections: () => this.#connections(),
		});
		const loadSpawn = config.relay === "stream" ? undefined : loadSpawnProgram;
		this.#rules = new RulesDriver({
			mode: config.rules === "none" ? "none" : "iptables",
			isAlone: config.serviceProxyName === undefined,
			env: options.env,
			loadSpawn,
			metrics: this.#metrics.sync,
			log: log.child({ room: "rules" }),
			clock: systemClock,
		});
		const notifyRunner = createCommandRunner({
			env: options.env,
			passedOn: ["NOTIFY_SOCKET"],
			loadSpawn,
		});
		this.#notifier = new SystemdNotifier({
			env: options.env,
			pid: process.pid,
			runCommand: (file, args) =>
				notifyRunner.run(file, args, {
					signal: new AbortController().signal,
					timeoutMs: NOTIFY_TIMEOUT_MS,
				}),
			isProgressing: () => judgeHealth(healthFacts(this.#facts())).progressing,
			log: log.child({ room: "observe" }),
		});
		this.ended = this.#run();
	}

	stop(reason: string): void {
		if (this.#stopReason !== undefined) {
			this.#hurry.resolve();
			return;
		}
		this.#stopReason = reason;
		// At once: a start that waits for a program, or a source, ends with it.
		this.#abort.abort();
		this.#stop.resolve();
	}

	logMoreConnections(): void {
		this.#observation.connectionLog.more("SIGUSR1");
	}

	logFewerConnections(): void {
		this.#observation.connectionLog.fewer("SIGUSR2");
	}

	reload(): void {
		if (this.#isStopping()) return;
		const { log, connectionLog } = this.#observation;
		// Before the daemon is ready there is no reload to tell of: READY=1 would say what is not true.
		if (this.#isReady) void this.#notifier.reloading();
		const answer = this.#options.reloadConfig();
		if ("problems" in answer) {
			log.error({ problems: answer.problems }, "the new configuration is wrong, the old one stays");
		} else {
			const { config, applied, needRestart } = applyChanges(this.#config, answer.config);
			this.#config = config;
			if (applied.includes("logLevel")) log.setLevel(config.logLevel);
			// Only where the configuration changed: it may have been turned up by a signal.
			if (applied.includes("logConnections"))
				connectionLog.setMode(config.logConnections, "reload");
			log.info({ applied, needRestart }, "configuration read again");
		}
		for (const source of this.#running?.sources ?? []) source.refresh?.();
		this.#running?.sync.request();
		this.#running?.sync.requestVerify();
		if (this.#isReady) void this.#notifier.ready(this.#servingStatus());
	}

	fatal(error: unknown): void {
		const { log } = this.#observation;
		if (error instanceof UserProxyError && this.#running === undefined) {
			log.error({ error: describeError(error) }, "cannot start");
			return;
		}
		const stack = error instanceof Error ? error.stack : undefined;
		log.error(
			{ error: describeError(error), stack },
			"fatal error, the packet rules stay for the successor",
		);
	}

	async #run(): Promise<StopResult> {
		const { log } = this.#observation;
		try {
			await this.#start();
			await this.#stop.promise;
			// Without the lock, rules that are there are another daemon's.
			const result = this.#lock === undefined ? NOTHING_STARTED : await this.#shutDown();
			log.info({ reason: this.#stopReason }, "stopped");
			return result;
		} finally {
			this.#lock?.release();
			await log.flush(FLUSH_LOG_TIMEOUT_MS);
		}
	}

	async #start(): Promise<void> {
		const { log } = this.#observation;
		const { version, env } = this.#options;
		const config = this.#config;
		log.info({ version, pid: process.pid, node: config.nodeName }, "starting");
		if (!(await this.#lockNode())) return;
		adjustOomScore(config.oomScoreAdj, log);
		this.#http = await this.#serveHttp();
		const sources = await createSources(config, { log, env });
		const node = new NodeWatch({
			config,
			log: log.child({ room: "daemon" }),
			nodeInfo: () => sources.map((source) => source.snapshot().node).find((info) => info),
			bindings: () => this.#running?.sync.state().bindings ?? [],
			clock: systemClock,
		});
		const { engine, fallbackReason } = await openEngine(config, {
			rules: this.#rules,
			node,
			hooks: engineHooks(this.#observation, this.#metrics.services),
			log,
			signal: this.#abort.signal,
		});
		this.#observation.followInterest((interest) => engine.want(interest));
		const serviceHealth = createServiceHealthServers({
			isHealthy: () => !this.#isStopping() && judgeHealth(healthFacts(this.#facts())).live,
			descriptors: engine.descriptors,
			log: log.child({ room: "observe" }),
		});
		const sync = this.#createSync(engine, sources, node);
		this.#running = { engine, fallbackReason, sync, sources, node, serviceHealth };
		if (this.#isStopping()) return;
		for (const source of sources) {
			source.start(() => sync.request(), this.#abort.signal);
		}
		this.#rounds = new Rounds({
			node,
			sync,
			plan: () => this.#plan,
			rulesPeriodMs: config.rulesSyncPeriodMs,
		});
		void this.#notifier.status("waiting for the first complete state");
	}

	/** False when a stop came first. Without rules of its own a daemon disturbs no other. */
	async #lockNode(): Promise<boolean> {
		const log = this.#observation.log.child({ room: "daemon" });
		const { signal } = this.#abort;
		this.#lock = this.#config.rules === "none" ? NO_LOCK : await takeNodeLock({ log, signal });
		return this.#lock !== undefined;
	}

	async #serveHttp(): Promise<HttpServers> {
		const { log, connectionLog, feed } = this.#observation;
		const config = this.#config;
		return await startHttpServers({
			healthAddress: config.healthzBindAddress,
			metricsAddress: config.metricsBindAddress,
			bindAddressHardFail: config.bindAddressHardFail,
			maxConnections: planDescriptors(readDescriptorLimit()).http,
			health: () => healthFacts(this.#facts()),
			onHealthAnswer: (path, status) => this.#metrics.sync.healthAnswered(path, status),
			metrics: this.#metrics,
			status: async () =>
				statusReport(this.#facts(), {
					connections: await this.#connections(),
					failingEndpoints: await this.#failingEndpoints(),
				}),
			connections: () => this.#connections(),
			recent: async () => feed.recent(await this.#running?.engine.recent()),
			feed,
			connectionLog,
			log: log.child({ room: "observe" }),
		});
	}

	#createSync(engine: RelayEngine, sources: readonly Source[], node: NodeWatch): Sync {
		const log = this.#observation.log.child({ room: "daemon" });
		const { services, sync: metrics } = this.#metrics;
		const planner = createServicePortPlanner({ serviceProxyName: this.#config.serviceProxyName });
		const notices = new PlanNotices(log);
		const merge = createSnapshotMerger(sources, log);
		let before: Snapshot | undefined;
		return new Sync({
			snapshot: merge,
			plan: (snapshot) => {
				metrics.changesSeen(countChanges(before, snapshot));
				before = snapshot;
				node.refresh();
				return planner.plan(snapshot, node.view());
			},
			onPlan: (plan) => {
				this.#plan = plan;
				notices.report(plan);
				services.keepServices(plan.servicePorts);
				this.#serveHealthChecks(plan, node);
			},
			onInForce: () => this.#onInForce(),
			engine,
			network: () => node.network(),
			rules: this.#rules,
			rulesMinIntervalMs: this.#config.rulesMinSyncPeriodMs,
			modelPeriodMs: this.#config.configSyncPeriodMs,
			log,
			clock: systemClock,
		});
	}

	#serveHealthChecks({ healthChecks }: ServicePortPlan, node: NodeWatch): void {
		const wanted = healthChecks.map(({ serviceName, ...check }) => ({
			...check,
			name: serviceName,
		}));
		this.#running?.serviceHealth.reconcile(wanted, node.healthCheckAddresses());
	}

	/** The rules are as wanted; the first time, the daemon is ready. */
	#onInForce(): void {
		this.#metrics.sync.changesApplied();
		if (this.#isReady) return;
		this.#isReady = true;
		const { rules, conntrack } = this.#config;
		// Not before: the rules are what loads the kernel's connection tracking. Without rules it is not ours.
		if (rules !== "none")
			adjustConntrack(conntrack, this.#observation.log.child({ room: "daemon" }));
		const servicePorts = this.#servicePorts();
		const startMs = systemClock.wallMs() - this.#startedAtMs;
		this.#observation.log.info({ servicePorts, startMs }, "ready");
		void this.#notifier.ready(this.#servingStatus());
	}

	#isStopping(): boolean {
		return this.#stopReason !== undefined;
	}

	#servicePorts(): number {
		return this.#running?.sync.state().servicePorts.length ?? 0;
	}

	#servingStatus(): string {
		return `serving ${this.#servicePorts()} ServicePorts`;
	}

	async #shutDown(): Promise<StopResult> {
		const { log } = this.#observation;
		const { drainTimeoutMs } = this.#config;
		const { sync, engine, sources = [], serviceHealth } = this.#running ?? {};
		this.#rounds?.stop();
		log.info({ reason: this.#stopReason, drainTimeoutMs }, "stopping");
		void this.#notifier.stopping(`waiting for connections to end (${this.#stopReason})`);
		return await stopServing({
			sync,
			rules: this.#rules,
			engine,
			others: new Map<string, () => Promise<unknown>>([
				["sources", () => Promise.all(sources.map((source) => source.closed()))],
				["HTTP servers", async () => await this.#http?.close()],
				["health check ports", async () => await serviceHealth?.close()],
				["systemd's notifications", () => this.#notifier.close()],
			]),
			drainTimeoutMs,
			hurry: this.#hurry.promise,
			log,
			clock: systemClock,
		});
	}

	async #connections(): Promise<readonly LiveConnection[]> {
		return (await this.#running?.engine.connections()) ?? [];
	}

	async #failingEndpoints(): Promise<RelayFacts["failingEndpoints"]> {
		return (await this.#running?.engine.failingEndpoints()) ?? new Map();
	}

	#facts(): DaemonFacts {
		const { log, connectionLog } = this.#observation;
		const running = this.#running;
		return {
			config: this.#config,
			version: this.#options.version,
			pid: process.pid,
			startedAtMs: this.#startedAtMs,
			isReady: this.#isReady,
			isStopping: this.#isStopping(),
			sources: (running?.sources ?? []).map((source) => source.status()),
			sync: running?.sync.state() ?? NO_SYNC,
			rules: this.#rules.keeper?.facts(),
			engine: running && {
				...running.engine.stats(),
				name: running.engine.name,
				fallbackReason: running.fallbackReason,
			},
			serviceHealth: running?.serviceHealth,
			logConnections: connectionLog.mode,
			logLinesDropped: log.droppedLines(),
			connectionLogLeftOut: connectionLog.leftOut(),
			wallMs: systemClock.wallMs(),
			monotonicMs: systemClock.monotonicMs(),
		};
	}
}
