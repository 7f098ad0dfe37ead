import { CONNECT_BOUNDS_SECONDS } from "../services/connection-counts.ts";
import type { Protocol } from "../services/service-port.ts";
import type { ServiceMetrics } from "./service-metrics.ts";
import { activeOf, type ServiceTally } from "./service-tally.ts";

/** How many tallies are written in one piece: some 3 ms of work. */
const TALLIES_PER_PIECE = 500;

export interface LiveBytes {
	readonly service: string;
	readonly protocol: Protocol;
	readonly bytesIn: number;
	readonly bytesOut: number;
}

/**
 * Writes all per-Service series in Prometheus' text format, in pieces: between two of them the
 * caller should let the event loop turn. (prom-client needs half a second in one go for 5,000
 * Services, in which nothing would be relayed.)
 */
export function* serviceSeries(
	services: ServiceMetrics,
	liveConnections: Iterable<LiveBytes>,
): Generator<string> {
	yield head(
		"connections_total",
		"counter",
		"TCP connections and UDP flows that have ended, by how",
	);
	yield* inPieces(services, ({ labels, counts: { ends } }) =>
		counts("connections_total", labels, "end", ends),
	);
	yield head("connections_active", "gauge", "TCP connections and UDP flows that live now");
	yield* inPieces(services, (tally) => sample("connections_active", tally.labels, activeOf(tally)));
	yield head(
		"bytes_total",
		"counter",
		"Bytes relayed, in: from clients to endpoints, out: back; living connections included",
	);
	yield bytes(services, liveConnections);
	yield head(
		"dial_attempts_total",
		"counter",
		"Attempts to reach an endpoint, of connections that have ended, by outcome",
	);
	yield* inPieces(services, ({ labels, counts: { attempts } }) =>
		counts("dial_attempts_total", labels, "outcome", attempts),
	);
	yield head(
		"connect_seconds",
		"histogram",
		"From accepting a connection to an open one to an endpoint, failed attempts included",
	);
	yield* inPieces(services, connectHistogram);
	yield head(
		"services_without_own_series",
		"gauge",
		'ServicePorts beyond the limit, which share the series with service="(other)"',
	);
	yield `kube_userproxy_services_without_own_series ${services.withoutOwnSeries()}\n`;
}

function* inPieces(
	services: ServiceMetrics,
	textOf: (tally: ServiceTally) => string,
): Generator<string> {
	let piece = "";
	let tallies = 0;
	for (const tally of services.all()) {
		piece += textOf(tally);
		tallies += 1;
		if (tallies % TALLIES_PER_PIECE === 0) {
			yield piece;
			piece = "";
		}
	}
	yield piece;
}

/** In one piece: a connection that ended in between would be counted twice, then once. */
function bytes(services: ServiceMetrics, liveConnections: Iterable<LiveBytes>): string {
	const live = new Map<ServiceTally, { in: number; out: number }>();
	for (const { protocol, service, bytesIn, bytesOut } of liveConnections) {
		const tally = services.tallyOf(protocol, service);
		const sum = live.get(tally) ?? { in: 0, out: 0 };
		sum.in += bytesIn;
		sum.out += bytesOut;
		live.set(tally, sum);
	}
	let text = "";
	for (const tally of services.all()) {
		const sum = live.get(tally) ?? { in: 0, out: 0 };
		text += sample("bytes_total", `${tally.labels},direction="in"`, tally.counts.bytesIn + sum.in);
		text += sample(
			"bytes_total",
			`${tally.labels},direction="out"`,
			tally.counts.bytesOut + sum.out,
		);
	}
	return text;
}

function connectHistogram(tally: ServiceTally): string {
	const { connectBuckets, connectCount, connectSeconds } = tally.counts;
	const { labels } = tally;
	let text = "";
	let sum = 0;
	for (const [index, bound] of CONNECT_BOUNDS_SECONDS.entries()) {
		sum += connectBuckets[index] ?? 0;
		text += sample("connect_seconds_bucket", `le="${bound}",${labels}`, sum);
	}
	text += sample("connect_seconds_bucket", `le="+Inf",${labels}`, connectCount);
	text += sample("connect_seconds_sum", labels, connectSeconds);
	return text + sample("connect_seconds_count", labels, connectCount);
}

function counts(
	name: string,
	labels: string,
	label: string,
	values: ReadonlyMap<string, number>,
): string {
	let text = "";
	for (const [value, count] of values) text += sample(name, `${labels},${label}="${value}"`, count);
	return text;
}

function sample(name: string, labels: string, value: number): string {
	return `kube_userproxy_${name}{${labels}} ${value}\n`;
}

function head(name: string, type: string, help: string): string {
	return `# HELP kube_userproxy_${name} ${help}\n# TYPE kube_userproxy_${name} ${type}\n`;
}
