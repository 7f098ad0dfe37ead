import type { LabNamespace } from "../../../test/kit/lab-namespace.ts";
import type { UdpLoadResult } from "../programs/udp-load.ts";
import { benchProgram } from "../programs.ts";

export interface UdpLoad {
	readonly address: string;
	readonly port: number;
	readonly seconds: number;
	readonly flows: number;
	readonly bytes: number;
}

/** More losses than this share of the round trips, and the rate is that of waiting for what never comes. */
const MAX_LOST_SHARE = 0.001;
const MARGIN_MS = 20_000;

/** @throws {Error} when it fails, or when datagrams got lost. */
export async function runUdpLoad(client: LabNamespace, load: UdpLoad): Promise<UdpLoadResult> {
	const { address, port, flows, bytes, seconds } = load;
	const args = [address, port, flows, bytes, seconds].map(String);
	const { stdout } = await client.exec(process.execPath, [benchProgram("udp-load"), ...args], {
		timeoutMs: seconds * 1_000 + MARGIN_MS,
	});
	return admitUdpResult(JSON.parse(stdout) as UdpLoadResult);
}

/** @throws {Error} when too many datagrams had no answer. */
export function admitUdpResult(result: UdpLoadResult): UdpLoadResult {
	const { count, lost } = result;
	if (count === 0 || lost > count * MAX_LOST_SHARE) {
		throw new Error(`${lost} datagrams had no answer, ${count} had one`);
	}
	return result;
}
