import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { tally } from "../kit/agent.ts";
import { startLabApi } from "../kit/api-lab.ts";
import { type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { rawService, rawSlice } from "../kit/raw-objects.ts";
import { createServiceLab, eventually, type ServiceLab } from "../kit/service-lab.ts";

const SERVICES = 3_000;

const { KUP_TEST_TIMES } = process.env;

/** Times are for people who ask for them (KUP_TEST_TIMES=1): a busy machine must fail no test. */
function tell(what: string, value: unknown): void {
	if (KUP_TEST_TIMES !== undefined) process.stdout.write(`${what}: ${JSON.stringify(value)}\n`);
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
	const beganMs = performance.now();
	const result = await work();
	tell(`${what}, ms`, Math.round(performance.now() - beganMs));
	return result;
}

/** Processor time that the process has used, in milliseconds; the kernel counts in ticks of 10. */
function cpuMs({ pid }: DaemonProcess): number {
	const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
	return (Number(fields[11]) + Number(fields[12])) * 10;
}

function addressOf(index: number): string {
	return `10.96.${1 + Math.floor(index / 250)}.${1 + (index % 250)}`;
}

/** Half of the Services have node ports, a number for both of its ports. */
function nodePortOf(index: number): number | undefined {
	return index % 2 === 0 ? 30_000 + index / 2 : undefined;
}

/** A Service of two ports, and its slice. */
function aService(index: number, { annotations = {}, endpoints = ["10.2.1.2", "10.2.2.2"] } = {}) {
	const name = `s${index}`;
	const nodePort = nodePortOf(index);
	const slice = rawSlice({
		serviceName: name,
		ports: [
			{ name: "http", protocol: "TCP", port: 8080 },
			{ name: "dns", protocol: "UDP", port: 8080 },
		],
		endpoints,
	});
	return [
		rawService({
			name,
			clusterIp: addressOf(index),
			ports: [
				{ name: "http", protocol: "TCP", port: 80, nodePort },
				{ name: "dns", protocol: "UDP", port: 53, nodePort },
			],
			spec: { type: nodePort === undefined ? "ClusterIP" : "NodePort" },
		}),
		{ ...slice, metadata: { ...slice.metadata, annotations } },
	];
}

const many = Array.from({ length: SERVICES }, (_, index) => aService(index)).flat();

function appliedRules(daemon: DaemonProcess): number {
	return daemon.logs.filter(({ msg }) => msg === "packet rules applied").length;
}

/** For the start of one daemon, or one more Service, on a machine that has much else to do; a test starts two. */
const PATIENCE_MS = 120_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

describe.skipIf(labProblem() !== undefined)("the daemon with 3,000 Services of two ports", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab({ endpoints: 2 });
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveUdp({ mode: "name", port: 8080 });
	});
	afterEach(async () => {
		await services.close();
	});

	const start = async (flags: readonly string[] = []) => {
		const daemon = await services.start(flags, { isReady: false });
		await daemon.ready(PATIENCE_MS);
		return daemon;
	};
	/** Two TCP connections and two UDP clients, at an address and its two ports. */
	const askAt = async (address: string, tcpPort: number, udpPort: number) => {
		const what = { address, count: 2, timeoutMs: 5_000 };
		const tcp = await services.client.tcp({ ...what, port: tcpPort });
		const udp = await services.client.udp({ ...what, port: udpPort, socketEach: true });
		return tally([...tcp, ...udp]);
	};
	const ask = async (index: number) => await askAt(addressOf(index), 80, 53);
	const askNodePort = async (index: number) => {
		const port = nodePortOf(index) ?? 0;
		return await askAt(services.lab.node.ipv4, port, port);
	};

	/** Runs the work while a client makes one connection after the other, each of which must succeed. */
	async function undisturbed(what: string, work: () => Promise<void>): Promise<void> {
		let isOver = false;
		const asking = (async () => {
			const times: number[] = [];
			while (!isOver) {
				const [result] = await services.client.tcp({ address: addressOf(7), port: 80 });
				expect(result?.error).toBeUndefined();
				times.push(result?.ms ?? 0);
			}
			return times.toSorted((a, b) => a - b);
		})();
		await work().finally(() => {
			isOver = true;
		});
		const times = await asking;
		tell(`${what}, connections meanwhile`, times.length);
		tell(`${what}, ms: p50, p99, longest`, [
			times[Math.floor(times.length / 2)],
			times[Math.floor(times.length * 0.99)],
			times.at(-1),
		]);
	}

	it("from one file: all served, one more is served, and a successor takes over (case 30a, case 30b, case 30d)", async () => {
		await services.write("many.json", many);
		const daemon = await timed("start", () => start(["--log-connections=off"]));
		for (const index of [0, 1_499, 2_999]) expect(await ask(index)).toEqual({ ep1: 2, ep2: 2 });
		for (const index of [0, 2_998]) expect(await askNodePort(index)).toEqual({ ep1: 2, ep2: 2 });
		const before = appliedRules(daemon);
		await undisturbed("one more", async () => {
			await services.write("one.json", aService(SERVICES));
			await timed("one more", () =>
				eventually(
					async () => expect(await ask(SERVICES)).toEqual({ ep1: 2, ep2: 2 }),
					PATIENCE_MS,
				),
			);
		});
		// Served is a moment earlier than told.
		await eventually(async () => expect(appliedRules(daemon)).toBe(before + 1));
		tell("event loop, longest delay, s", await daemon.metric("nodejs_eventloop_lag_max_seconds"));
		await daemon.kill9();
		const second = await timed("start on a predecessor's rules", () => start());
		expect(await ask(1)).toEqual({ ep1: 2, ep2: 2 });
		// All found again as they were, on the same ports.
		expect(second.logs.find(({ msg }) => msg === "rules of a predecessor found")).toMatchObject({
			servicePorts: 2 * (SERVICES + 1),
		});
	});

	it("from an API: updates that change nothing that counts start no iptables (case 30c, case 30d)", async () => {
		const api = await startLabApi(services.lab.node);
		for (let from = 0; from < many.length; from += 1_000) {
			await api.put(...many.slice(from, from + 1_000));
		}
		const daemon = startDaemon({
			in: services.lab.node,
			flags: [`--master=${api.url}`, "--log-connections=off"],
		});
		await timed("start", () => daemon.ready(PATIENCE_MS));
		const before = appliedRules(daemon);
		const syncs = () => daemon.metric("kubeproxy_sync_proxy_rules_duration_seconds_count");
		const syncsBefore = (await syncs()) ?? 0;
		const beganMs = performance.now();
		const cpuBefore = cpuMs(daemon);
		for (let turn = 0; turn < 100; turn += 1) {
			const annotations = { turn: String(turn) };
			await api.put(...aService(turn % 50, { annotations }).slice(1));
			const waitMs = beganMs + (turn + 1) * 50 - performance.now();
			if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
		}
		const tookMs = performance.now() - beganMs;
		tell("100 updates, processor ms of ms", [cpuMs(daemon) - cpuBefore, Math.round(tookMs)]);
		// The look whether somebody changed the rules, every ten seconds, counts as two for each family; one that
		// was due while the daemon started may be late.
		const looks = 2 + Math.floor(tookMs / 10_000);
		expect(await syncs()).toBeLessThanOrEqual(syncsBefore + 4 * looks);
		expect(appliedRules(daemon)).toBe(before);
		// The last one is counted by the pass that comes for it.
		await eventually(async () =>
			expect(await daemon.metric("kubeproxy_sync_proxy_rules_endpoint_changes_total")).toBe(
				SERVICES + 100,
			),
		);
		await undisturbed("more updates", async () => {
			for (let turn = 0; turn < 20; turn += 1) {
				await api.put(...aService(turn, { annotations: { again: String(turn) } }).slice(1));
			}
			// And one that does count, after all of them.
			await api.put(...aService(40, { endpoints: ["10.2.2.2"] }).slice(1));
			await eventually(async () => expect(await ask(40)).toEqual({ ep2: 4 }));
		});
		expect(appliedRules(daemon)).toBe(before);
		tell("event loop, longest delay, s", await daemon.metric("nodejs_eventloop_lag_max_seconds"));
	});
});
