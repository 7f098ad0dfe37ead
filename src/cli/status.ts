import type { ListenAddress } from "../config/config.ts";
import {
	escapeControlCharactersInJson,
	showControlCharacters,
} from "../observe/control-characters.ts";
import { humanDuration } from "../observe/units.ts";
import { formatSocketAddress } from "../services/address.ts";
import {
	type RelayReport,
	type ServicePortReport,
	type SourceReport,
	STATUS_PATH,
	type StatusReport,
} from "../services/status.ts";
import { EXIT_FAILED, EXIT_FINE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { complain } from "./report.ts";
import { fetchStatus, StatusError } from "./status-client.ts";
import { formatTable } from "./table.ts";

/** Endpoints of one ServicePort that a row names. */
const MAX_NAMED_ENDPOINTS = 3;

/** A worker that ended so lately may well do so again. */
const RECENT_MS = 10 * 60_000;

export interface StatusOptions {
	readonly address: ListenAddress;
	readonly json: boolean;
}

/** `status`: what the running daemon serves and how it is. */
export async function statusCommand(
	host: Host,
	{ address, json }: StatusOptions,
	signal: AbortSignal,
): Promise<number> {
	try {
		const text = await fetchStatus(address, STATUS_PATH, signal);
		const report = parseStatus(text);
		if (report === undefined) throw new StatusError("The answer cannot be understood");
		host.out(
			json
				? `${escapeControlCharactersInJson(text.trim())}\n`
				: renderStatus(report, host.wallMs()),
		);
		return EXIT_FINE;
	} catch (error) {
		if (!(error instanceof StatusError)) throw error;
		complain(host, `status: ${error.message}`);
		return EXIT_FAILED;
	}
}

/** Enough of a look to tell our daemon from something else that speaks JSON. */
function parseStatus(text: string): StatusReport | undefined {
	try {
		const value: unknown = JSON.parse(text);
		if (typeof value !== "object" || value === null) return undefined;
		const isOurs =
			"version" in value &&
			typeof value.version === "string" &&
			"servicePorts" in value &&
			Array.isArray(value.servicePorts) &&
			"sources" in value &&
			Array.isArray(value.sources) &&
			"rules" in value;
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the daemon of this program wrote it
		return isOurs ? (value as unknown as StatusReport) : undefined;
	} catch {
		return undefined;
	}
}

/** First what an operator asks first: is it well, and how old is what it knows. */
export function renderStatus(report: StatusReport, nowMs: number): string {
	const lines = [
		`kube-userproxy ${report.version} on ${report.nodeName}, pid ${report.pid}: ${report.ready ? "ready" : "NOT READY"}, up ${humanDuration(nowMs - report.startedAtMs)}`,
		`rules    ${rulesLine(report, nowMs)}`,
		`relay    ${relayLine(report, nowMs)}`,
		`sync     ${ago(report.lastSyncAtMs, nowMs, "not yet")}`,
		...report.sources.flatMap((source) => sourceLines(source, nowMs)),
		`records  one per connection: ${report.logConnections}`,
		"",
	];
	return `${lines.map(showControlCharacters).join("\n")}\n${servicePortTable(report.servicePorts)}`;
}

function rulesLine({ rules }: StatusReport, nowMs: number): string {
	const backend = rules.backend ?? "not known yet";
	const problem = rules.problem === undefined ? "" : `; PROBLEM: ${rules.problem}`;
	return `${backend}, verified ${ago(rules.lastVerifiedAtMs, nowMs, "not yet")}${problem}`;
}

function relayLine({ relay }: StatusReport, nowMs: number): string {
	if (relay === undefined) return "not known yet";
	const { engine, workers, fallbackReason, workerFailures, lastWorkerFailure } = relay;
	const threads =
		workers === 0
			? "one thread"
			: `${workers} worker${workers === 1 ? "" : "s"}, ${ioUringText(relay)}`;
	const fallback = fallbackReason === undefined ? "" : `; no system calls: ${fallbackReason}`;
	const failures =
		lastWorkerFailure === undefined
			? ""
			: `; ${nowMs - lastWorkerFailure.atMs < RECENT_MS ? "PROBLEM: " : ""}${workerFailures} ended by an error, the last ${ago(lastWorkerFailure.atMs, nowMs, "")}: ${lastWorkerFailure.error}`;
	return `${engine}, ${threads}${fallback}${failures}`;
}

/** "io_uring" makes them faster; whether it is there is a matter of the kernel and the sandbox. */
function ioUringText({ workers, ioUringWorkers }: RelayReport): string {
	if (ioUringWorkers === 0) return "no io_uring";
	return ioUringWorkers === workers ? "io_uring" : `io_uring in ${ioUringWorkers}`;
}

function sourceLines(source: SourceReport, nowMs: number): readonly string[] {
	const state = source.synced ? `known ${ago(source.freshAtMs, nowMs, "not yet")}` : "NOT READ YET";
	const problem = source.problem === undefined ? [] : [`           PROBLEM: ${source.problem}`];
	const rejected = source.rejected.map(
		({ object, problems }) => `           left out: ${object}: ${problems.join("; ")}`,
	);
	return [`source   ${source.name}: ${state}`, ...problem, ...rejected];
}

function ago(momentMs: number | undefined, nowMs: number, never: string): string {
	return momentMs === undefined ? never : `${humanDuration(Math.max(0, nowMs - momentMs))} ago`;
}

function servicePortTable(ports: readonly ServicePortReport[]): string {
	if (ports.length === 0) return "No ServicePorts\n";
	const head = ["SERVICE", "ADDRESS", "PROXY PORT", "OPEN", "ENDPOINTS"];
	const rows = ports.map((port) => [
		port.pool === "local" ? `${port.name} (local)` : port.name,
		addressCell(port),
		port.proxyPort === undefined ? "-" : `${port.proxyPort}`,
		`${port.connections}`,
		`${endpointsCell(port)}${port.problem === undefined ? "" : `  PROBLEM: ${port.problem}`}`,
	]);
	return formatTable(head, rows, ["left", "left", "right", "right", "left"]);
}

/** "10.96.0.10:80,:30080/tcp": the node port is on the node's own addresses. */
function addressCell({ virtualAddresses, port, nodePort, protocol }: ServicePortReport): string {
	const addresses = virtualAddresses.map((address) => formatSocketAddress(address, port));
	const all = nodePort === undefined ? addresses : [...addresses, `:${nodePort}`];
	return `${all.join(",")}/${protocol}`;
}

/** The failing ones first: they are what one looks for. */
function endpointsCell({ endpoints, whenEmpty }: ServicePortReport): string {
	if (endpoints.length === 0) return whenEmpty === "drop" ? "none here, drops" : "none, refuses";
	const sorted = [
		...endpoints.filter(({ state }) => state === "failing"),
		...endpoints.filter(({ state }) => state !== "failing"),
	];
	const named = sorted
		.slice(0, MAX_NAMED_ENDPOINTS)
		.map(({ endpoint, state }) => (state === "failing" ? `${endpoint} (failing)` : endpoint));
	const more = sorted.length - named.length;
	return `${endpoints.length}: ${named.join(", ")}${more > 0 ? `, ${more} more` : ""}`;
}
