import { setImmediate } from "node:timers/promises";
import { collectDefaultMetrics, Registry } from "prom-client";
import { type Clock, systemClock } from "../shared/clock.ts";
import { addCounter, addGauge } from "./scraped.ts";
import { ServiceMetrics } from "./service-metrics.ts";
import { type LiveBytes, serviceSeries } from "./service-series.ts";
import { SyncMetrics } from "./sync-metrics.ts";

/** Each of them walks or copies one object per open socket at each scrape. */
const TOO_COSTLY = [
	"nodejs_active_handles",
	"nodejs_active_handles_total",
	"nodejs_active_requests",
	"nodejs_active_requests_total",
	"nodejs_active_resources",
	"nodejs_active_resources_total",
];

/** Milliseconds between samples of the event loop's delay; prom-client's 10 wake an idle node up. */
const LOOP_DELAY_RESOLUTION_MS = 50;

/** What the daemon knows at the moment of a scrape. Counts since the start, unless said otherwise. */
export interface MetricsFacts {
	readonly ready: boolean;
	readonly sources: readonly SourceFacts[];
	readonly engine: EngineFacts | undefined;
	/** ServicePorts that are served now. */
	readonly servicePorts: number;
	/** ServicePorts whose listener cannot be opened at present. */
	readonly listenProblems: number;
	/** Undefined where there are no servers for health checks of Services. */
	readonly healthChecks?: HealthCheckFacts | undefined;
	readonly conntrackDeletions: number;
	readonly logLinesDropped: number;
	readonly connectionLogLeftOut: number;
}

interface SourceFacts {
	readonly name: string;
	readonly synced: boolean;
	/** Since its state was last known to be the newest; undefined before the first. */
	readonly ageSeconds: number | undefined;
	readonly failing: boolean;
	/** Objects left out at present. */
	readonly rejectedObjects: number;
}

/** Of ServiceHealthServers. */
interface HealthCheckFacts {
	/** healthCheckNodePorts that answer. */
	readonly openPorts: number;
	/** Services whose healthCheckNodePort does not answer, wholly or on some address. */
	readonly problems: number;
}

/** Of proxies' EngineStats. */
interface EngineFacts {
	readonly name: string;
	/** Threads that relay, beside the first. */
	readonly workers: number;
	/** Of them, those that make many system calls by one, through io_uring. */
	readonly ioUringWorkers: number;
	readonly listeners: number;
	readonly tcpConnections: number;
	/** Accepted and waiting for descriptors, unread. */
	readonly waitingConnections: number;
	readonly udpFlows: number;
	readonly droppedDatagramsByReason: ReadonlyMap<string, number>;
	readonly evictedFlows: number;
	readonly affinityEvictions: number;
	readonly workerFailures: number;
	/** Endpoints that failed lately and are tried last, counted in each ServicePort. */
	readonly failingEndpoints: number;
	readonly overloadRefusals: number;
	readonly acceptPaused: boolean;
}

export interface MetricsOptions {
	readonly version: string;
	/** Called once per scrape. */
	readonly facts: () => Promise<MetricsFacts>;
	/** Called once per scrape. */
	readonly liveConnections: () => Promise<Iterable<LiveBytes>>;
	readonly clock?: Clock;
	readonly maxServices?: number;
}

export interface Metrics {
	readonly services: ServiceMetrics;
	readonly sync: SyncMetrics;
	readonly contentType: string;
	/** The text of all series. Scrapes at the same time share one. */
	render(): Promise<string>;
}

export function createMetrics(options: MetricsOptions): Metrics {
	const registry = new Registry();
	collectDefaultMetrics({
		register: registry,
		eventLoopMonitoringPrecision: LOOP_DELAY_RESOLUTION_MS,
	});
	for (const name of TOO_COSTLY) registry.removeSingleMetric(name);
	const services = new ServiceMetrics(options.maxServices);
	const sync = new SyncMetrics(registry, options.clock ?? systemClock);
	let latest: MetricsFacts | undefined;
	const facts = (): MetricsFacts => {
		if (latest === undefined) throw new TypeError("Cannot tell facts before they are asked for");
		return latest;
	};
	addBuildInfo(registry, options.version);
	addSourceSeries(registry, () => facts());
	addStateSeries(registry, () => facts());
	addHealthCheckSeries(registry, () => facts().healthChecks);
	addEngineSeries(registry, () => facts().engine);

	const renderNow = async (): Promise<string> => {
		// All that comes from the facts tells of one moment.
		latest = await options.facts();
		const live = await options.liveConnections();
		let text = await registry.metrics();
		for (const piece of serviceSeries(services, live)) {
			text += piece;
			// oxlint-disable-next-line no-await-in-loop -- the relay gets its turn between two pieces
			await setImmediate();
		}
		return text;
	};
	let rendering: Promise<string> | undefined;
	return {
		services,
		sync,
		contentType: registry.contentType,
		render() {
			rendering ??= renderNow().finally(() => {
				rendering = undefined;
			});
			return rendering;
		},
	};
}

function addBuildInfo(registry: Registry, version: string): void {
	const [major = "", minor = ""] = version.split(".");
	addGauge(registry, {
		name: "kubernetes_build_info",
		help: "The version, under the name and labels that components of Kubernetes have",
		labelNames: ["major", "minor", "git_version", "compiler", "platform"],
		read: () => [
			[
				{
					major,
					minor,
					git_version: `v${version}`,
					compiler: `node-${process.version}`,
					platform: `${process.platform}/${process.arch}`,
				},
				1,
			],
		],
	});
}

function addSourceSeries(registry: Registry, facts: () => MetricsFacts): void {
	const perSource = (
		name: string,
		help: string,
		pick: (source: SourceFacts) => number | undefined,
	): void =>
		addGauge(registry, {
			name: `kube_userproxy_source_${name}`,
			help,
			labelNames: ["source"],
			*read() {
				for (const source of facts().sources) {
					const value = pick(source);
					if (value !== undefined) yield [{ source: source.name }, value];
				}
			},
		});
	perSource("synced", "1 once the source has delivered a complete state", ({ synced }) =>
		Number(synced),
	);
	perSource(
		"age_seconds",
		"Since the source's state was last known to be the newest",
		({ ageSeconds }) => ageSeconds,
	);
	perSource("failing", "1 while something is wrong with the source", ({ failing }) =>
		Number(failing),
	);
	perSource(
		"rejected_objects",
		"Objects of the source that are left out at present because they are wrong",
		({ rejectedObjects }) => rejectedObjects,
	);
}

type ReadOne<Facts> = (facts: Facts) => number | undefined;

/** Adds series without labels that are read out of the same facts. */
function seriesOf<Facts>(registry: Registry, facts: () => Facts | undefined) {
	const series =
		(add: typeof addGauge) =>
		(name: string, help: string, pick: ReadOne<Facts>): void =>
			add(registry, {
				name: `kube_userproxy_${name}`,
				help,
				read() {
					const now = facts();
					const value = now === undefined ? undefined : pick(now);
					return value === undefined ? [] : [[{}, value]];
				},
			});
	return { gauge: series(addGauge), counter: series(addCounter) };
}

function addStateSeries(registry: Registry, facts: () => MetricsFacts): void {
	const { gauge, counter } = seriesOf(registry, facts);
	gauge("ready", "1 while /readyz says so", ({ ready }) => Number(ready));
	gauge("service_ports", "ServicePorts that are served", ({ servicePorts }) => servicePorts);
	gauge(
		"listen_problems",
		"ServicePorts whose listener cannot be opened at present",
		({ listenProblems }) => listenProblems,
	);
	counter(
		"conntrack_deletions_total",
		"Conntrack entries deleted because they kept UDP flows on what is gone",
		({ conntrackDeletions }) => conntrackDeletions,
	);
	counter(
		"log_lines_dropped_total",
		"Log lines given up because their reader was slow or gone",
		({ logLinesDropped }) => logLinesDropped,
	);
	counter(
		"connection_log_left_out_total",
		"Connections that the connection log left out because there were too many",
		({ connectionLogLeftOut }) => connectionLogLeftOut,
	);
}

function addHealthCheckSeries(registry: Registry, facts: () => HealthCheckFacts | undefined): void {
	const { gauge } = seriesOf(registry, facts);
	gauge("health_check_ports", "healthCheckNodePorts that answer", ({ openPorts }) => openPorts);
	gauge(
		"health_check_problems",
		"Services whose healthCheckNodePort does not answer at present, wholly or on some address",
		({ problems }) => problems,
	);
}

function addEngineSeries(registry: Registry, facts: () => EngineFacts | undefined): void {
	const { gauge, counter } = seriesOf(registry, facts);
	addGauge(registry, {
		name: "kube_userproxy_relay_engine",
		help: "1 for the engine that relays",
		labelNames: ["engine"],
		*read() {
			const engine = facts()?.name;
			if (engine !== undefined) yield [{ engine }, 1];
		},
	});
	gauge("relay_workers", "Threads that relay, beside the first", ({ workers }) => workers);
	gauge(
		"relay_io_uring_workers",
		"Of the threads that relay, those that make many system calls by one, through io_uring",
		({ ioUringWorkers }) => ioUringWorkers,
	);
	gauge("listeners", "Open listeners", ({ listeners }) => listeners);
	gauge("tcp_connections", "TCP connections that live", ({ tcpConnections }) => tcpConnections);
	gauge("udp_flows", "UDP flows in the table", ({ udpFlows }) => udpFlows);
	gauge(
		"accept_paused",
		"1 while new TCP connections wait because descriptors are short",
		({ acceptPaused }) => Number(acceptPaused),
	);
	gauge(
		"waiting_connections",
		"TCP connections that wait because descriptors are short",
		({ waitingConnections }) => waitingConnections,
	);
	gauge(
		"failing_endpoints",
		"Endpoints that failed lately and are tried last, counted in each ServicePort that has them",
		({ failingEndpoints }) => failingEndpoints,
	);
	addCounter(registry, {
		name: "kube_userproxy_dropped_datagrams_total",
		help: "Datagrams that were not passed on, by why",
		labelNames: ["reason"],
		*read() {
			const reasons = facts()?.droppedDatagramsByReason ?? [];
			for (const [reason, count] of reasons) yield [{ reason }, count];
		},
	});
	counter(
		"evicted_flows_total",
		"UDP flows ended to make room for others",
		({ evictedFlows }) => evictedFlows,
	);
	counter(
		"affinity_evictions_total",
		"Clients that session affinity forgot because a ServicePort had too many",
		({ affinityEvictions }) => affinityEvictions,
	);
	counter(
		"worker_failures_total",
		"Relay workers that ended by an error and were replaced",
		({ workerFailures }) => workerFailures,
	);
	counter(
		"overload_refusals_total",
		"TCP connections refused because descriptors were short",
		({ overloadRefusals }) => overloadRefusals,
	);
}
