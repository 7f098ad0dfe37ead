import type { Running } from "./contenders.ts";
import type { Figures } from "./figures.ts";
import { whileIdle } from "./loads/idle.ts";
import { runIperf3 } from "./loads/iperf3.ts";
import { runUdpLoad } from "./loads/udp.ts";
import { runWrk, type WrkResult } from "./loads/wrk.ts";
import { openDescriptors, processorSeconds, residentBytes } from "./process-use.ts";
import type { Carried, Setting } from "./setting.ts";

/** One kind of load, and what is measured under it. */
export interface Measurement {
	/** For `--only`; the keys of its figures begin with it. */
	readonly name: string;
	/** What a contender must carry for it. */
	readonly carries: Carried;
	/** True: it says nothing of a contender whose processes are not known. */
	readonly isOfProcesses: boolean;
	/** The same load without figures: programs that compile while they run, do so at first. */
	warmUp(setting: Setting, running: Running, seconds: number): Promise<unknown>;
	measure(setting: Setting, running: Running, seconds: number): Promise<Figures>;
}

/** Both legs of them fit into the 20,000 descriptors that small machines allow. */
const IDLE_CONNECTIONS = 8_000;
const UDP_FLOWS = 32;

const BITS_PER_GBIT = 1e9;
const BYTES_PER_GB = 1e9;
const MICRO = 1_000;

const askAnew = askOver({ connections: 32, isKept: false });

function bulk(name: "bulk" | "bulk8", streams: number): Measurement {
	const run = (setting: Setting, { target }: Running, seconds: number) =>
		runIperf3(setting.lab.client, {
			address: target.address,
			port: target.ports.bulk ?? 0,
			seconds,
			streams,
		});
	return {
		name,
		carries: "bulk",
		isOfProcesses: false,
		warmUp: run,
		async measure(setting, running, seconds) {
			const { result, processor } = await withProcessor(running, () =>
				run(setting, running, seconds),
			);
			return {
				[`${name}.rate`]: result.bitsPerSecond / BITS_PER_GBIT,
				...(processor === undefined
					? {}
					: { [`${name}.processor`]: (processor / result.bytes) * BYTES_PER_GB }),
			};
		},
	};
}

function keepAlive(name: "keepalive" | "keepalive256", connections: number): Measurement {
	const run = askOver({ connections, isKept: true });
	return {
		name,
		carries: "http",
		isOfProcesses: false,
		warmUp: run,
		async measure(setting, running, seconds) {
			const { perSecond, p50Ms, p99Ms } = await run(setting, running, seconds);
			return {
				[`${name}.rate`]: perSecond / 1_000,
				[`${name}.p50`]: p50Ms,
				[`${name}.p99`]: p99Ms,
			};
		},
	};
}

function newConnections(): Measurement {
	return {
		name: "new",
		carries: "http",
		isOfProcesses: false,
		warmUp: askAnew,
		async measure(setting, running, seconds) {
			const { result, processor } = await withProcessor(running, () =>
				askAnew(setting, running, seconds),
			);
			return {
				"new.rate": result.perSecond / 1_000,
				"new.p50": result.p50Ms,
				"new.p99": result.p99Ms,
				// Seconds for one are milliseconds for a thousand, times a million.
				...(processor === undefined
					? {}
					: { "new.processor": (processor / result.requests) * 1e6 }),
			};
		},
	};
}

function loneRequest(): Measurement {
	const run = askOver({ connections: 1, isKept: true });
	return {
		name: "lone",
		carries: "http",
		isOfProcesses: false,
		warmUp: run,
		async measure(setting, running, seconds) {
			const { p50Ms } = await run(setting, running, seconds);
			return { "lone.p50": p50Ms * MICRO };
		},
	};
}

function udp(name: "udp" | "udp1400", bytes: number): Measurement {
	const run = (setting: Setting, { target }: Running, seconds: number) =>
		runUdpLoad(setting.lab.client, {
			address: target.address,
			port: target.ports.udp ?? 0,
			seconds,
			flows: UDP_FLOWS,
			bytes,
		});
	return {
		name,
		carries: "udp",
		isOfProcesses: false,
		warmUp: run,
		async measure(setting, running, seconds) {
			const result = await run(setting, running, seconds);
			return {
				[`${name}.rate`]: result.count / result.seconds / 1_000,
				[`${name}.p50`]: result.p50Ms,
				[`${name}.p99`]: result.p99Ms,
			};
		},
	};
}

/** What a proxy's own memory and descriptors grow by for each connection, both legs together. */
function idle(): Measurement {
	return {
		name: "idle",
		carries: "http",
		isOfProcesses: true,
		warmUp: askAnew,
		async measure({ lab }, { target, pids }) {
			const before = { bytes: residentBytes(pids), descriptors: openDescriptors(pids) };
			const load = {
				address: target.address,
				port: target.ports.http ?? 0,
				connections: IDLE_CONNECTIONS,
			};
			return await whileIdle(lab.client, load, () => ({
				"idle.memory": (residentBytes(pids) - before.bytes) / IDLE_CONNECTIONS / 1_024,
				"idle.descriptors": (openDescriptors(pids) - before.descriptors) / IDLE_CONNECTIONS,
			}));
		},
	};
}

function askOver(how: { readonly connections: number; readonly isKept: boolean }) {
	return ({ lab }: Setting, { target }: Running, seconds: number): Promise<WrkResult> =>
		runWrk(lab.client, {
			address: target.address,
			port: target.ports.http ?? 0,
			seconds,
			...how,
		});
}

/** The processor time that the contender took meanwhile, in seconds; undefined: its processes are not known. */
async function withProcessor<T>(
	{ pids }: Running,
	load: () => Promise<T>,
): Promise<{ readonly result: T; readonly processor: number | undefined }> {
	const before = processorSeconds(pids);
	const result = await load();
	const processor = pids.length === 0 ? undefined : processorSeconds(pids) - before;
	return { result, processor };
}

/** In the order of the tables. */
export const MEASUREMENTS: readonly Measurement[] = [
	bulk("bulk", 1),
	bulk("bulk8", 8),
	keepAlive("keepalive", 32),
	keepAlive("keepalive256", 256),
	newConnections(),
	loneRequest(),
	udp("udp", 64),
	udp("udp1400", 1_400),
	idle(),
];
