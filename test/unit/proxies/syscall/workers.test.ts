import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import type { ToWorker } from "../../../../src/proxies/syscall/messages.ts";
import type { WorkerHandleOptions } from "../../../../src/proxies/syscall/worker-handle.ts";
import { Workers } from "../../../../src/proxies/syscall/workers.ts";
import { anEndpointAt, aServicePort } from "../builders.ts";

beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});

afterEach(() => {
	vi.useRealTimers();
});

/** A worker that does nothing. */
interface Started extends WorkerHandleOptions {
	readonly told: ToWorker[];
}

function someWorkers(count: number) {
	const started: Started[] = [];
	const deaths: unknown[] = [];
	/** While there is one, none can be started. */
	const problem: { error: Error | undefined } = { error: undefined };
	const workers = new Workers({
		count,
		settings: {
			dialTimeoutsMs: [1],
			halfCloseIdleMs: 1,
			drainRemovedMs: undefined,
			maxWaiting: 1,
			maxDialing: 1,
			maxAffinityClients: undefined,
			descriptorLimit: 10,
			sweepMs: 1,
			ioUring: false,
			udp: { idleMs: 1, firstAnswerMs: 1, maxFlows: 1 },
		},
		maxDescriptor: 0,
		hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {}, onCounted: () => {} },
		onFault: () => {},
		onUdpFault: () => {},
		onClientForgotten: () => {},
		onDeath: (worker, cause) => deaths.push([worker, cause]),
		start(options) {
			if (problem.error !== undefined) throw problem.error;
			const told: ToWorker[] = [];
			started.push({ ...options, told });
			return {
				tell: (message) => told.push(message),
				ask: () => Promise.resolve(undefined),
				release: () => Promise.resolve(),
				stop: () => Promise.resolve(),
			};
		},
	});
	return { workers, started, deaths, problem };
}

describe("Workers", () => {
	it("replace one that ends, each time after a longer wait, at once again after it has lived long", async () => {
		const { workers, started, deaths } = someWorkers(1);
		const waits: number[] = [];
		for (let round = 1; round <= 8; round += 1) {
			started.at(-1)?.onDeath("a bug");
			const atMs = performance.now();
			vi.runAllTimers();
			expect(started).toHaveLength(1 + round);
			waits.push(performance.now() - atMs);
		}
		expect(waits).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000]);
		expect(deaths).toHaveLength(8);
		vi.advanceTimersByTime(30_000);
		started.at(-1)?.onDeath("a bug");
		vi.advanceTimersByTime(100);
		expect(started).toHaveLength(10);
		await workers.stop();
	});

	it("hand a successor what the one before it served", async () => {
		const { workers, started } = someWorkers(2);
		// No descriptors: they are closed at the end.
		workers.open(aServicePort(), [-1, -2], undefined);
		started[1]?.onDeath("a bug");
		vi.runAllTimers();
		expect(started.map(({ settings, told }) => [settings.index, told])).toMatchObject([
			[0, [{ kind: "open", fds: [-1] }]],
			[1, [{ kind: "open", fds: [-2] }]],
			[1, [{ kind: "open", fds: [-2] }]],
		]);
		await workers.stop();
	});

	it("begin each rotation anywhere", async () => {
		const { workers } = someWorkers(1);
		for (let count = 0; count < 20; count += 1) workers.open(aServicePort(), [-1], undefined);
		const begun = new Set(workers.shared.turns.subarray(1, 21));
		expect(begun.size).toBeGreaterThan(10);
		expect(Math.min(...begun)).toBeGreaterThanOrEqual(0);
		await workers.stop();
	});

	it("keep a rotation's place when endpoints change", async () => {
		const { workers } = someWorkers(2);
		const endpoints = [1, 2, 3, 4].map((port) => anEndpointAt("10.2.1.2", port));
		const id = workers.open(aServicePort({ endpoints }), [-1, -2], undefined);
		workers.shared.turns[id] = 402;
		workers.update(id, aServicePort({ endpoints: endpoints.slice(1) }));
		// It was the third one's turn, which is the second of three now.
		expect((workers.shared.turns[id] ?? 0) % 3).toBe(1);
		workers.update(id, aServicePort({ endpoints: [] }));
		workers.update(id, aServicePort({ endpoints }));
		expect(workers.shared.turns[id]).toBeGreaterThan(300);
		await workers.stop();
	});

	it("count one that cannot be started, and try again", async () => {
		const { workers, started, deaths, problem } = someWorkers(1);
		started[0]?.onDeath("a bug");
		problem.error = new Error("eventfd: EMFILE");
		vi.advanceTimersByTime(100);
		expect([started.length, deaths]).toEqual([
			1,
			[
				[0, "a bug"],
				[0, problem.error],
			],
		]);
		problem.error = undefined;
		vi.advanceTimersByTime(200);
		expect(started).toHaveLength(2);
		await workers.stop();
	});

	it("are not replaced after a stop", async () => {
		const { workers, started } = someWorkers(1);
		started[0]?.onDeath("a bug");
		await workers.stop();
		vi.runAllTimers();
		expect(started).toHaveLength(1);
	});

	it("gather a listener's sockets where the other one of its port is, when both are to know their clients", async () => {
		const { workers, started } = someWorkers(3);
		const byClient = aServicePort({ sessionAffinity: { type: "ClientIP", timeoutMs: 1_000 } });
		const local = workers.open(byClient, [-1], undefined);
		workers.update(local, aServicePort());
		const cluster = workers.open(aServicePort({ pool: "local" }), [-2, -3, -4], local);
		const toldOf = (listener: number) =>
			started.flatMap(({ told, settings }) =>
				told.some((message) => message.kind === "update" && message.listener === listener)
					? [settings.index]
					: [],
			);
		for (const { told } of started) told.length = 0;
		workers.update(local, byClient);
		workers.update(cluster, byClient);
		await workers.settle();
		expect(toldOf(cluster)).toEqual(toldOf(local));
		expect(toldOf(cluster)).toEqual([1]);
		expect(started[1]?.told.filter(({ kind }) => kind === "open")).toMatchObject([
			{ listener: cluster, fds: [-2, -4] },
		]);
		await workers.stop();
	});

	it("have room in turn where connections of several wait", () => {
		const { workers, started } = someWorkers(3);
		workers.shared.waiting.set([3, 1, 0, 2]);
		for (let round = 0; round < 4; round += 1) started[1]?.onRoom();
		expect(started.map(({ told }) => told.length)).toEqual([2, 0, 2]);
		workers.shared.waiting.fill(0);
		started[0]?.onRoom();
		expect(started.map(({ told }) => told.length)).toEqual([2, 0, 2]);
	});
});
