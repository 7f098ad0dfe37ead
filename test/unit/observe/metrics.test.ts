import { afterEach, describe, expect, test as it, vi } from "vitest";
import { createMetrics, type MetricsFacts } from "../../../src/observe/metrics.ts";
import type { LiveBytes } from "../../../src/observe/service-series.ts";
import { aRecord, aRetriedRecord } from "./a-record.ts";

const quiet: MetricsFacts = {
	ready: true,
	sources: [],
	engine: undefined,
	servicePorts: 0,
	listenProblems: 0,
	conntrackDeletions: 0,
	logLinesDropped: 0,
	connectionLogLeftOut: 0,
};

const cart = { name: "shop/cart:http", protocol: "tcp" } as const;
const start = { service: cart.name, protocol: cart.protocol };

function someMetrics(
	options: { readonly maxServices?: number; readonly facts?: Partial<MetricsFacts> } = {},
) {
	const live: LiveBytes[] = [];
	const facts = vi.fn<() => Promise<MetricsFacts>>(() =>
		Promise.resolve({ ...quiet, ...options.facts }),
	);
	const metrics = createMetrics({
		version: "1.2.3",
		facts,
		liveConnections: () => Promise.resolve(live),
		clock: { wallMs: () => 1_700_000_000_500, monotonicMs: () => 0 },
		...(options.maxServices === undefined ? {} : { maxServices: options.maxServices }),
	});
	/** The lines of series whose name begins so. */
	const series = async (name: string): Promise<string[]> =>
		(await metrics.render()).split("\n").filter((line) => line.startsWith(name));
	return { metrics, live, facts, series };
}

afterEach(() => {
	vi.restoreAllMocks();
});

describe("per-Service metrics", () => {
	it("count connections by Service, protocol and end", async () => {
		const { metrics, series } = someMetrics();
		metrics.services.keepServices([cart]);
		for (const end of ["closed", "closed", "client-reset"] as const) {
			metrics.services.started(start);
			metrics.services.ended(aRecord({ end }));
		}
		metrics.services.started(start);
		expect(await series("kube_userproxy_connections_")).toEqual([
			'kube_userproxy_connections_total{service="shop/cart:http",protocol="tcp",end="closed"} 2',
			'kube_userproxy_connections_total{service="shop/cart:http",protocol="tcp",end="client-reset"} 1',
			'kube_userproxy_connections_active{service="shop/cart:http",protocol="tcp"} 1',
		]);
	});

	it("begin with zero, so that the first increase is seen", async () => {
		const { metrics, series } = someMetrics();
		metrics.services.keepServices([cart]);
		expect(await series("kube_userproxy_connections_total")).toEqual([
			'kube_userproxy_connections_total{service="shop/cart:http",protocol="tcp",end="closed"} 0',
		]);
	});

	it("count dial attempts by outcome and measure the time to connect", async () => {
		const { metrics, series } = someMetrics();
		metrics.services.keepServices([cart]);
		metrics.services.ended(aRetriedRecord({ connectMs: 3 }));
		metrics.services.ended(aRecord({ end: "unreachable", connectMs: undefined }));
		expect(await series("kube_userproxy_dial_attempts_total")).toEqual([
			'kube_userproxy_dial_attempts_total{service="shop/cart:http",protocol="tcp",outcome="connected"} 2',
			'kube_userproxy_dial_attempts_total{service="shop/cart:http",protocol="tcp",outcome="refused"} 1',
		]);
		const connect = await series("kube_userproxy_connect_seconds");
		expect(connect).toContain(
			'kube_userproxy_connect_seconds_bucket{le="0.001",service="shop/cart:http",protocol="tcp"} 0',
		);
		expect(connect).toContain(
			'kube_userproxy_connect_seconds_bucket{le="0.005",service="shop/cart:http",protocol="tcp"} 1',
		);
		expect(connect).toContain(
			'kube_userproxy_connect_seconds_count{service="shop/cart:http",protocol="tcp"} 1',
		);
	});

	it("add the bytes of living connections to those of ended ones", async () => {
		const { metrics, live, series } = someMetrics();
		metrics.services.keepServices([cart]);
		metrics.services.ended(aRecord({ bytesIn: 10, bytesOut: 100 }));
		live.push({ ...start, bytesIn: 1, bytesOut: 2 }, { ...start, bytesIn: 3, bytesOut: 4 });
		expect(await series("kube_userproxy_bytes_total")).toEqual([
			'kube_userproxy_bytes_total{service="shop/cart:http",protocol="tcp",direction="in"} 14',
			'kube_userproxy_bytes_total{service="shop/cart:http",protocol="tcp",direction="out"} 106',
		]);
	});

	it("vanish with the Service", async () => {
		const { metrics, series } = someMetrics();
		metrics.services.keepServices([cart]);
		metrics.services.started(start);
		metrics.services.ended(aRecord());
		expect((await metrics.render()).includes("shop/cart")).toBe(true);
		metrics.services.keepServices([]);
		expect((await metrics.render()).includes("shop/cart")).toBe(false);
		expect(await series("kube_userproxy_connect_seconds_count")).toEqual([]);
	});

	it("stay until the last connection of a Service that is gone has ended", async () => {
		const { metrics } = someMetrics();
		metrics.services.keepServices([cart]);
		metrics.services.started(start);
		metrics.services.keepServices([]);
		expect((await metrics.render()).includes("shop/cart")).toBe(true);
		metrics.services.ended(aRecord());
		expect((await metrics.render()).includes("shop/cart")).toBe(false);
	});

	it("are shared beyond the limit, visibly", async () => {
		const { metrics, series } = someMetrics({ maxServices: 2 });
		const names = ["a/1", "a/2", "a/3", "a/4"];
		metrics.services.keepServices(names.map((name) => ({ name, protocol: "tcp" })));
		for (const service of names) {
			metrics.services.started({ service, protocol: "tcp" });
			metrics.services.ended(aRecord({ service }));
		}
		expect(await series("kube_userproxy_connections_total")).toEqual([
			'kube_userproxy_connections_total{service="a/1",protocol="tcp",end="closed"} 1',
			'kube_userproxy_connections_total{service="a/2",protocol="tcp",end="closed"} 1',
			'kube_userproxy_connections_total{service="(other)",protocol="tcp",end="closed"} 2',
		]);
		expect(await series("kube_userproxy_services_without_own_series ")).toEqual([
			"kube_userproxy_services_without_own_series 2",
		]);
		metrics.services.keepServices([{ name: "a/4", protocol: "tcp" }]);
		expect(await series("kube_userproxy_services_without_own_series ")).toEqual([
			"kube_userproxy_services_without_own_series 0",
		]);
	});

	it("never hold an address of a client or an endpoint", async () => {
		const { metrics } = someMetrics();
		metrics.services.keepServices([cart]);
		metrics.services.ended(aRetriedRecord());
		expect(await metrics.render()).not.toMatch(/10\.[12]\./);
	});
});

describe("kube-proxy's metrics", () => {
	it("tell when and how long rules were applied, per family", async () => {
		const { metrics, series } = someMetrics();
		metrics.sync.rulesQueued(["ipv4"]);
		metrics.sync.rulesSynced({ family: "ipv4", durationMs: 30, succeeded: true });
		metrics.sync.rulesSynced({ family: "ipv6", durationMs: 5, succeeded: false });
		metrics.sync.restoreFailed("ipv6");
		metrics.sync.rulesInForce("ipv4", { nat: 12, filter: 3 });
		const all = await series("kubeproxy_sync_proxy_rules_");
		for (const line of [
			'duration_seconds_bucket{le="0.016",ip_family="IPv4"} 0',
			'duration_seconds_bucket{le="0.032",ip_family="IPv4"} 1',
			'duration_seconds_count{ip_family="IPv6"} 1',
			'last_timestamp_seconds{ip_family="IPv4"} 1700000000.5',
			'last_queued_timestamp_seconds{ip_family="IPv4"} 1700000000.5',
			'iptables_total{ip_family="IPv4",table="nat"} 12',
			'iptables_restore_failures_total{ip_family="IPv4"} 0',
			'iptables_restore_failures_total{ip_family="IPv6"} 1',
		]) {
			expect(all).toContain(`kubeproxy_sync_proxy_rules_${line}`);
		}
		expect(all.filter((line) => line.includes("last_timestamp"))).toHaveLength(1);
	});

	it("have kube-proxy's 15 buckets", async () => {
		const { metrics, series } = someMetrics();
		metrics.sync.rulesSynced({ family: "ipv4", durationMs: 1, succeeded: true });
		const bounds = (await series("kubeproxy_sync_proxy_rules_duration_seconds_bucket")).map(
			(line) => /le="([^"]+)"/.exec(line)?.[1],
		);
		expect([bounds.length, bounds[0], bounds[14], bounds[15]]).toEqual([
			16,
			"0.001",
			"16.384",
			"+Inf",
		]);
	});

	it("count changes, and what of them is pending", async () => {
		const { metrics, series } = someMetrics();
		metrics.sync.changesSeen({ services: 2, endpoints: 3 });
		metrics.sync.changesApplied();
		metrics.sync.changesSeen({ services: 0, endpoints: 1 });
		expect(await series("kubeproxy_sync_proxy_rules_service_changes")).toEqual([
			"kubeproxy_sync_proxy_rules_service_changes_total 2",
			"kubeproxy_sync_proxy_rules_service_changes_pending 0",
		]);
		expect(await series("kubeproxy_sync_proxy_rules_endpoint_changes")).toEqual([
			"kubeproxy_sync_proxy_rules_endpoint_changes_total 4",
			"kubeproxy_sync_proxy_rules_endpoint_changes_pending 1",
		]);
	});

	it("count health answers by code", async () => {
		const { metrics, series } = someMetrics();
		metrics.sync.healthAnswered("/healthz", 200);
		metrics.sync.healthAnswered("/healthz", 503);
		metrics.sync.healthAnswered("/livez", 200);
		metrics.sync.healthAnswered("/readyz", 200);
		expect(await series("kubeproxy_proxy_")).toEqual([
			'kubeproxy_proxy_healthz_total{code="200"} 1',
			'kubeproxy_proxy_healthz_total{code="503"} 1',
			'kubeproxy_proxy_livez_total{code="200"} 1',
		]);
	});
});

describe("createMetrics()", () => {
	it("exposes what the daemon knows at the moment of the scrape", async () => {
		const { series } = someMetrics({
			facts: {
				ready: false,
				servicePorts: 7,
				listenProblems: 1,
				conntrackDeletions: 5,
				healthChecks: { openPorts: 18, problems: 19 },
				sources: [
					{ name: 'a"b', synced: true, ageSeconds: 3.5, failing: true, rejectedObjects: 2 },
					{ name: "c", synced: false, ageSeconds: undefined, failing: false, rejectedObjects: 0 },
				],
				engine: {
					name: "syscall",
					workers: 21,
					ioUringWorkers: 22,
					listeners: 6,
					tcpConnections: 11,
					udpFlows: 12,
					waitingConnections: 15,
					droppedDatagramsByReason: new Map([
						["no-endpoint", 13],
						["refused", 0],
					]),
					evictedFlows: 16,
					affinityEvictions: 17,
					workerFailures: 20,
					failingEndpoints: 18,
					overloadRefusals: 14,
					acceptPaused: true,
				},
			},
		});
		const all = await series("kube_userproxy_");
		for (const line of [
			"ready 0",
			"service_ports 7",
			'relay_engine{engine="syscall"} 1',
			"relay_workers 21",
			"relay_io_uring_workers 22",
			"listeners 6",
			"listen_problems 1",
			"health_check_ports 18",
			"health_check_problems 19",
			"tcp_connections 11",
			"udp_flows 12",
			"accept_paused 1",
			'dropped_datagrams_total{reason="no-endpoint"} 13',
			'dropped_datagrams_total{reason="refused"} 0',
			"waiting_connections 15",
			"evicted_flows_total 16",
			"affinity_evictions_total 17",
			"worker_failures_total 20",
			"failing_endpoints 18",
			"overload_refusals_total 14",
			"conntrack_deletions_total 5",
			'source_synced{source="a\\"b"} 1',
			'source_synced{source="c"} 0',
			'source_age_seconds{source="a\\"b"} 3.5',
			'source_failing{source="a\\"b"} 1',
			'source_rejected_objects{source="a\\"b"} 2',
		]) {
			expect(all).toContain(`kube_userproxy_${line}`);
		}
		expect(all.filter((line) => line.includes("source_age"))).toHaveLength(1);
	});

	it("says its version the way Kubernetes' components do", async () => {
		const { series } = someMetrics();
		expect(await series("kubernetes_build_info")).toEqual([
			expect.stringMatching(
				/^kubernetes_build_info\{major="1",minor="2",git_version="v1\.2\.3",compiler="node-v\d+.*",platform="linux\/\w+"\} 1$/,
			),
		]);
	});

	it("has the process's own series, without those that walk all sockets", async () => {
		const { series } = someMetrics();
		expect(await series("process_resident_memory_bytes ")).toHaveLength(1);
		expect(await series("process_open_fds ")).toHaveLength(1);
		expect(await series("nodejs_eventloop_lag_p99_seconds ")).toHaveLength(1);
		expect(await series("nodejs_active_")).toEqual([]);
	});

	it("asks once for all scrapes that go on at the same time", async () => {
		const { metrics, facts } = someMetrics();
		const texts = await Promise.all([metrics.render(), metrics.render(), metrics.render()]);
		expect(new Set(texts).size).toBe(1);
		expect(facts).toHaveBeenCalledTimes(1);
		await metrics.render();
		expect(facts).toHaveBeenCalledTimes(2);
	});

	it("writes each series under one head, in the text format", async () => {
		const { metrics } = someMetrics();
		metrics.services.keepServices([cart, { name: 'a"b\\c', protocol: "udp" }]);
		metrics.services.ended(aRetriedRecord());
		const lines = (await metrics.render())
			.trimEnd()
			.split("\n")
			.filter((line) => line !== "");
		const sample = /^[a-z_][a-z0-9_]*(?<labels>\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? \S+$/;
		expect(lines.filter((line) => !line.startsWith("# ") && !sample.test(line))).toEqual([]);
		const typed = lines
			.filter((line) => line.startsWith("# TYPE "))
			.map((line) => line.split(" ")[2]);
		expect(new Set(typed).size).toBe(typed.length);
		const untyped = lines
			.filter((line) => !line.startsWith("#"))
			.map((line) => /^[a-z_][a-z0-9_]*/.exec(line)?.[0] ?? "")
			.filter((name) => !typed.includes(name.replace(/_(bucket|sum|count)$/, "")))
			.filter((name) => !typed.includes(name));
		expect(untyped).toEqual([]);
	});
});
