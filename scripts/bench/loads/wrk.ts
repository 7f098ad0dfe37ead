import type { LabNamespace } from "../../../test/kit/lab-namespace.ts";

/** How wrk asks. */
export interface WrkLoad {
	readonly address: string;
	readonly port: number;
	readonly seconds: number;
	readonly connections: number;
	/** False: a new connection for each request. */
	readonly isKept: boolean;
}

export interface WrkResult {
	readonly requests: number;
	readonly perSecond: number;
	readonly p50Ms: number;
	readonly p99Ms: number;
}

/** For what wrk needs beyond its own duration. */
const MARGIN_MS = 20_000;

/** @throws {Error} when wrk fails or met errors. */
export async function runWrk(client: LabNamespace, load: WrkLoad): Promise<WrkResult> {
	const host = load.address.includes(":") ? `[${load.address}]` : load.address;
	const args = [
		"--threads=1",
		`--connections=${load.connections}`,
		`--duration=${load.seconds}s`,
		"--latency",
		...(load.isKept ? [] : ["--header=Connection: close"]),
		`http://${host}:${load.port}/`,
	];
	const timeoutMs = load.seconds * 1_000 + MARGIN_MS;
	const { stdout } = await client.exec("wrk", args, { timeoutMs });
	return parseWrk(stdout);
}

/**
 * @param output what wrk prints with `--latency`.
 * @throws {Error} when a figure is missing, or wrk met errors, whose figures would mislead.
 */
export function parseWrk(output: string): WrkResult {
	const errors = /^\s*(Socket errors: .*|Non-2xx or 3xx responses: .*)$/m.exec(output)?.[1];
	if (errors !== undefined) throw new Error(`wrk met errors: ${errors}`);
	const requests = numberIn(output, /^\s*(\d+) requests in /m);
	if (requests === 0) throw new Error("wrk got no answer");
	return {
		requests,
		perSecond: numberIn(output, /^Requests\/sec:\s+([\d.]+)/m),
		p50Ms: latencyMsIn(output, "50%"),
		p99Ms: latencyMsIn(output, "99%"),
	};
}

const UNITS_MS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000, m: 60_000 };

function latencyMsIn(output: string, share: string): number {
	const pattern = new RegExp(`^\\s*${share}\\s+([\\d.]+)(us|ms|s|m)\\s*$`, "m");
	const unit = pattern.exec(output)?.[2] ?? "";
	return numberIn(output, pattern) * (UNITS_MS[unit] ?? Number.NaN);
}

function numberIn(output: string, pattern: RegExp): number {
	const text = pattern.exec(output)?.[1];
	if (text === undefined) throw new Error(`Cannot read what wrk says: ${output.trim()}`);
	return Number(text);
}
