import type { LabNamespace } from "../../../test/kit/lab-namespace.ts";

export interface Iperf3Load {
	readonly address: string;
	readonly port: number;
	readonly seconds: number;
	readonly streams: number;
}

export interface Iperf3Result {
	readonly bitsPerSecond: number;
	/** What the server received. */
	readonly bytes: number;
}

/** For what iperf3 needs beyond its own duration. */
const MARGIN_MS = 20_000;

/** @throws {Error} when iperf3 fails. */
export async function runIperf3(client: LabNamespace, load: Iperf3Load): Promise<Iperf3Result> {
	const args = [
		"--json",
		`--client=${load.address}`,
		`--port=${load.port}`,
		`--time=${load.seconds}`,
		`--parallel=${load.streams}`,
		"--connect-timeout=5000",
	];
	const timeoutMs = load.seconds * 1_000 + MARGIN_MS;
	const { stdout } = await client.exec("iperf3", args, { timeoutMs, mayFail: true });
	return parseIperf3(stdout);
}

/**
 * @param output what iperf3 prints with `--json`.
 * @throws {Error} with iperf3's own words, where it failed.
 */
export function parseIperf3(output: string): Iperf3Result {
	const { error, end } = parseJson(output);
	if (error !== undefined) throw new Error(`iperf3 failed: ${error}`);
	const received = end?.sum_received;
	const { bits_per_second: bitsPerSecond, bytes } = received ?? {};
	if (bitsPerSecond === undefined || bytes === undefined || bytes === 0) {
		throw new Error("iperf3 does not say what the server received");
	}
	return { bitsPerSecond, bytes };
}

interface Iperf3Output {
	readonly error?: string;
	readonly end?: {
		readonly sum_received?: { readonly bits_per_second?: number; readonly bytes?: number };
	};
}

function parseJson(output: string): Iperf3Output {
	try {
		return JSON.parse(output) as Iperf3Output;
	} catch {
		throw new Error(`Cannot read what iperf3 says: ${output.trim().slice(0, 500)}`);
	}
}
