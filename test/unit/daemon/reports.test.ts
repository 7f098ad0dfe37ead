import { describe, expect, test as it } from "vitest";
import { type DaemonFacts, metricsFacts, statusReport } from "../../../src/daemon/reports.ts";
import { NO_SYNC } from "../../../src/daemon/sync.ts";
import { configOf, inputs } from "../config/inputs.ts";
import { anEndpointAt, aServicePort } from "../proxies/builders.ts";

const one = anEndpointAt("10.2.1.2", 8080);
const two = anEndpointAt("10.2.2.2", 8080);
const cart = aServicePort({ name: "cart", endpoints: [one, two] });
const stock = aServicePort({ name: "stock", endpoints: [one] });

const stats = {
	name: "syscall",
	fallbackReason: undefined,
	listeners: 2,
	tcpConnections: 3,
	waitingConnections: 1,
	udpFlows: 4,
	droppedDatagrams: 5,
	droppedDatagramsByReason: new Map([["refused", 5]]),
	evictedFlows: 6,
	affinityEvictions: 7,
	workers: 2,
	ioUringWorkers: 1,
	workerFailures: 8,
	lastWorkerFailure: undefined,
	overloadRefusals: 8,
	acceptPaused: true,
} as const satisfies DaemonFacts["engine"];

function facts(parts: Partial<DaemonFacts> = {}): DaemonFacts {
	return {
		config: configOf(inputs()),
		version: "1.2.3",
		pid: 1,
		startedAtMs: 0,
		isReady: true,
		isStopping: false,
		sources: [],
		sync: { ...NO_SYNC, servicePorts: [cart, stock] },
		rules: undefined,
		engine: stats,
		serviceHealth: { openPorts: () => 2, problems: () => [] },
		logConnections: "off",
		logLinesDropped: 0,
		connectionLogLeftOut: 0,
		wallMs: 0,
		monotonicMs: 0,
		...parts,
	};
}

describe("statusReport()", () => {
	it("calls an endpoint failing in the ServicePort in which it is, and in no other", () => {
		const { servicePorts } = statusReport(facts(), {
			failingEndpoints: new Map([[cart.key, [one.key]]]),
			connections: [],
		});
		expect(servicePorts.map(({ endpoints }) => endpoints)).toEqual([
			[
				{ endpoint: one.key, state: "failing" },
				{ endpoint: two.key, state: "ok" },
			],
			[{ endpoint: one.key, state: "ok" }],
		]);
	});
});

describe("statusReport() of what relays", () => {
	const relayOf = (engine: DaemonFacts["engine"]) =>
		statusReport(facts({ engine }), { failingEndpoints: new Map(), connections: [] }).relay;

	it("has its workers and what became of them", () => {
		const lastWorkerFailure = { atMs: 7, error: "a bug" };
		expect(relayOf({ ...stats, lastWorkerFailure })).toEqual({
			engine: "syscall",
			workers: 2,
			ioUringWorkers: 1,
			fallbackReason: undefined,
			workerFailures: 8,
			lastWorkerFailure,
		});
	});

	it("says why there are no system calls, and nothing while nothing relays", () => {
		const reason = "Cannot find package 'koffi'";
		expect(relayOf({ ...stats, name: "stream", fallbackReason: reason })).toMatchObject({
			engine: "stream",
			fallbackReason: reason,
		});
		expect(relayOf(undefined)).toBeUndefined();
	});
});

describe("metricsFacts()", () => {
	it("hands on what the engine counts, with the number of failing endpoints", () => {
		const failingEndpoints = new Map([
			[cart.key, [one.key, two.key]],
			[stock.key, [one.key]],
		]);
		expect(metricsFacts(facts(), failingEndpoints).engine).toEqual({
			...stats,
			failingEndpoints: 3,
		});
		expect(metricsFacts(facts({ engine: undefined }), failingEndpoints).engine).toBeUndefined();
	});
});
