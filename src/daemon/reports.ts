import type { Config } from "../config/config.ts";
import type { HealthFacts } from "../observe/health.ts";
import type { MetricsFacts } from "../observe/metrics.ts";
import type { ServiceHealthServers } from "../observe/service-health.ts";
import type { EngineStats, LiveConnection, RelayEngine } from "../proxies/engine.ts";
import type { RulesFacts } from "../rules/rule-keeper.ts";
import { IP_FAMILIES } from "../services/address.ts";
import type { ServicePortKey } from "../services/service-port.ts";
import type { RelayReport, ServicePortReport, StatusReport } from "../services/status.ts";
import type { SourceStatus } from "../sources/source.ts";
import type { OpenedEngine } from "./engine.ts";
import type { SyncState } from "./sync.ts";

type EngineReport = EngineStats & Pick<RelayEngine, "name"> & Pick<OpenedEngine, "fallbackReason">;

/** Everything that reports are made of, at one moment. */
export interface DaemonFacts {
	readonly config: Config;
	readonly version: string;
	readonly pid: number;
	readonly startedAtMs: number;
	readonly isReady: boolean;
	readonly isStopping: boolean;
	readonly sources: readonly SourceStatus[];
	readonly sync: SyncState;
	/** Undefined while it is not known what this host has. */
	readonly rules: RulesFacts | undefined;
	/** Undefined while there is none yet. */
	readonly engine: EngineReport | undefined;
	/** Undefined before the start is over. */
	readonly serviceHealth: Pick<ServiceHealthServers, "openPorts" | "problems"> | undefined;
	readonly logConnections: Config["logConnections"];
	readonly logLinesDropped: number;
	readonly connectionLogLeftOut: number;
	readonly wallMs: number;
	readonly monotonicMs: number;
}

/** What an engine is asked for, as RelayEngine has it. */
export interface RelayFacts {
	readonly failingEndpoints: ReadonlyMap<ServicePortKey, readonly string[]>;
	readonly connections: readonly LiveConnection[];
}

/** For `kube-userproxy status`. */
export function statusReport(facts: DaemonFacts, relay: RelayFacts): StatusReport {
	const { sync, rules } = facts;
	return {
		version: facts.version,
		pid: facts.pid,
		nodeName: facts.config.nodeName,
		startedAtMs: facts.startedAtMs,
		ready: facts.isReady && !facts.isStopping,
		sources: facts.sources,
		rules: {
			backend: rules === undefined ? undefined : describeRules(rules),
			lastVerifiedAtMs: sync.rulesDoneAt?.wallMs,
			problem: sync.rulesProblem,
		},
		relay: facts.engine && relayReport(facts.engine),
		lastSyncAtMs: sync.modelDoneAtMs,
		logConnections: facts.logConnections,
		servicePorts: servicePortReports(facts, relay),
	};
}

function relayReport(engine: EngineReport): RelayReport {
	const { name, workers, ioUringWorkers, fallbackReason } = engine;
	const { workerFailures, lastWorkerFailure } = engine;
	return {
		engine: name,
		workers,
		ioUringWorkers,
		fallbackReason,
		workerFailures,
		lastWorkerFailure,
	};
}

function describeRules({ variant, version }: RulesFacts): string {
	if (variant === "none") return "none";
	return `iptables ${version ?? ""} (${variant === "nft" ? "nf_tables" : "legacy"})`;
}

function servicePortReports(facts: DaemonFacts, relay: RelayFacts): readonly ServicePortReport[] {
	const { sync } = facts;
	const live = Map.groupBy(relay.connections, ({ protocol, service }) => `${protocol} ${service}`);
	const failing = relay.failingEndpoints;
	const proxyPorts = new Map(sync.bindings.map(({ key, proxyPort }) => [key, proxyPort]));
	return sync.servicePorts.map((servicePort) => ({
		name: servicePort.name,
		key: servicePort.key,
		protocol: servicePort.protocol,
		family: servicePort.family,
		pool: servicePort.pool,
		virtualAddresses: servicePort.virtualAddresses.map(({ address }) => address),
		port: servicePort.port,
		nodePort: servicePort.nodePort?.port,
		whenEmpty: servicePort.whenEmpty,
		proxyPort: proxyPorts.get(servicePort.key),
		endpoints: servicePort.endpoints.map(({ key }) => ({
			endpoint: key,
			state: failing.get(servicePort.key)?.includes(key) === true ? "failing" : "ok",
		})),
		connections: live.get(`${servicePort.protocol} ${servicePort.name}`)?.length ?? 0,
		problem: sync.listenProblems.get(servicePort.key),
	}));
}

/** For /healthz, /livez, /readyz and the watchdog. */
export function healthFacts(facts: DaemonFacts): HealthFacts {
	const { sync, rules, monotonicMs } = facts;
	const ago = (sinceMs: number | undefined): number | undefined =>
		sinceMs === undefined ? undefined : monotonicMs - sinceMs;
	const missing = new Set(rules?.unavailable.map(({ family }) => family));
	return {
		syncPeriodMs: facts.config.rulesSyncPeriodMs,
		families: IP_FAMILIES.filter((family) => !missing.has(family)).map((family) => ({
			family,
			pendingMs: ago(sync.unappliedSinceMs),
			syncedAgoMs: ago(sync.rulesDoneAt?.monotonicMs),
		})),
		runners: sync.runners.map(({ name, queuedSinceMs, runningSinceMs }) => ({
			name,
			queuedMs: ago(queuedSinceMs),
			runningMs: ago(runningSinceMs),
		})),
		firstSyncDone: facts.isReady,
		stopping: facts.isStopping,
		sources: facts.sources.map(({ name, synced, freshAtMs, problem }) => ({
			name,
			synced,
			ageMs: freshAtMs === undefined ? undefined : Math.max(0, facts.wallMs - freshAtMs),
			failing: problem !== undefined,
		})),
	};
}

/** For /metrics. */
export function metricsFacts(
	facts: DaemonFacts,
	failingEndpoints: RelayFacts["failingEndpoints"],
): MetricsFacts {
	const { sync, rules, engine, serviceHealth, wallMs } = facts;
	return {
		ready: facts.isReady && !facts.isStopping,
		sources: facts.sources.map(({ name, synced, freshAtMs, problem, rejected }) => ({
			name,
			synced,
			ageSeconds: freshAtMs === undefined ? undefined : Math.max(0, wallMs - freshAtMs) / 1_000,
			failing: problem !== undefined,
			rejectedObjects: rejected.length,
		})),
		engine: engine && { ...engine, failingEndpoints: countFailing(failingEndpoints) },
		servicePorts: sync.servicePorts.length,
		listenProblems: sync.listenProblems.size,
		healthChecks: serviceHealth && {
			openPorts: serviceHealth.openPorts(),
			problems: serviceHealth.problems().length,
		},
		conntrackDeletions: rules?.deletedFlowGroups ?? 0,
		logLinesDropped: facts.logLinesDropped,
		connectionLogLeftOut: facts.connectionLogLeftOut,
	};
}

/** An endpoint of several ServicePorts counts in each of them. */
function countFailing(failing: ReadonlyMap<ServicePortKey, readonly string[]>): number {
	let count = 0;
	for (const endpoints of failing.values()) count += endpoints.length;
	return count;
}
