import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { Backoff } from "../../../src/shared/backoff.ts";
import { BoundedRunner, type BoundedRunnerOptions } from "../../../src/shared/bounded-runner.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

function aRunner(overrides: Partial<BoundedRunnerOptions> = {}) {
	const startedAtMs: number[] = [];
	const beginMs = Date.now();
	const failures: unknown[] = [];
	const runner = new BoundedRunner({
		run: () => {
			startedAtMs.push(Date.now() - beginMs);
			return Promise.resolve();
		},
		onFailure: (error) => failures.push(error),
		now: Date.now,
		minIntervalMs: 1_000,
		burst: 2,
		...overrides,
	});
	return { runner, startedAtMs, failures, sinceBegin: () => Date.now() - beginMs };
}

describe("BoundedRunner", () => {
	it("runs at once on the first request", async () => {
		const { runner, startedAtMs } = aRunner();
		runner.request();
		await vi.advanceTimersByTimeAsync(0);
		expect(startedAtMs).toEqual([0]);
	});

	it("spends the burst, then keeps the minimum interval (classic 9.1.32)", async () => {
		const { runner, startedAtMs } = aRunner();
		for (let index = 0; index < 50; index += 1) {
			runner.request();
			await vi.advanceTimersByTimeAsync(100);
		}
		await vi.advanceTimersByTimeAsync(5_000);
		expect(startedAtMs.slice(0, 3)).toEqual([0, 100, 1_000]);
		expect(startedAtMs.length).toBeLessThanOrEqual(8);
		const gaps = startedAtMs.slice(2).map((at, index) => at - (startedAtMs[index + 1] ?? 0));
		expect(Math.min(...gaps)).toBeGreaterThanOrEqual(900);
	});

	it("gathers requests that come close together into one run", async () => {
		const { runner, startedAtMs } = aRunner({ gatherMs: 20 });
		for (let index = 0; index < 10; index += 1) {
			runner.request();
			await vi.advanceTimersByTimeAsync(1);
		}
		await vi.advanceTimersByTimeAsync(500);
		expect(startedAtMs).toEqual([20]);
	});

	it("a request during a run causes exactly one more", async () => {
		let release = () => {};
		let runs = 0;
		const { runner } = aRunner({
			minIntervalMs: 0,
			run: () => {
				runs += 1;
				return new Promise((resolve) => {
					release = resolve;
				});
			},
		});
		runner.request();
		await vi.advanceTimersByTimeAsync(0);
		runner.request();
		runner.request();
		await vi.advanceTimersByTimeAsync(1_000);
		expect(runs).toBe(1);
		release();
		await vi.advanceTimersByTimeAsync(0);
		expect(runs).toBe(2);
		release();
		await vi.advanceTimersByTimeAsync(10_000);
		expect(runs).toBe(2);
	});

	it("runs every maximum interval without a request, counted from the last start (classic 9.1.32)", async () => {
		const { runner, startedAtMs } = aRunner({ maxIntervalMs: 30_000 });
		runner.request();
		await vi.advanceTimersByTimeAsync(95_000);
		expect(startedAtMs).toEqual([0, 30_000, 60_000, 90_000]);
	});

	it("a failure is retried with growing waits that requests cannot cut short", async () => {
		const startedAtMs: number[] = [];
		const beginMs = Date.now();
		let failing: boolean = true;
		const { runner, failures } = aRunner({
			minIntervalMs: 0,
			retry: new Backoff({ initialMs: 100, maxMs: 400, factor: 2, jitter: 0 }),
			run: () => {
				startedAtMs.push(Date.now() - beginMs);
				return failing ? Promise.reject(new Error("no")) : Promise.resolve();
			},
		});
		runner.request();
		await vi.advanceTimersByTimeAsync(50);
		runner.request();
		await vi.advanceTimersByTimeAsync(1_050);
		expect(startedAtMs).toEqual([0, 100, 300, 700, 1_100]);
		expect(failures).toHaveLength(5);
		failing = false;
		await vi.advanceTimersByTimeAsync(400);
		runner.request();
		await vi.advanceTimersByTimeAsync(0);
		expect(startedAtMs.slice(5)).toEqual([1_500, 1_500]);
	});

	it("tells since when a request waits and a run goes on", async () => {
		let release = () => {};
		const { runner, sinceBegin } = aRunner({
			run: () =>
				new Promise((resolve) => {
					release = resolve;
				}),
		});
		expect(runner.queuedSinceMs()).toBeUndefined();
		const askedAt = Date.now();
		runner.request();
		expect(runner.queuedSinceMs()).toBe(askedAt);
		await vi.advanceTimersByTimeAsync(5);
		expect(runner.queuedSinceMs()).toBeUndefined();
		expect(runner.runningSinceMs()).toBe(askedAt);
		release();
		await vi.advanceTimersByTimeAsync(5);
		expect(runner.runningSinceMs()).toBeUndefined();
		expect(sinceBegin()).toBe(10);
	});

	it("stop() aborts the present run, waits for it and begins none after", async () => {
		let runs = 0;
		let settled = false;
		const { runner, failures } = aRunner({
			maxIntervalMs: 100,
			run: (signal) => {
				runs += 1;
				return new Promise((_resolve, reject) => {
					signal.addEventListener("abort", () => {
						settled = true;
						reject(new Error("aborted"));
					});
				});
			},
		});
		runner.request();
		await vi.advanceTimersByTimeAsync(0);
		await runner.stop();
		expect(settled).toBe(true);
		runner.request();
		await vi.advanceTimersByTimeAsync(10_000);
		expect(runs).toBe(1);
		expect(failures).toEqual([]);
	});

	it("refuses a burst below one", () => {
		expect(() => aRunner({ burst: 0 })).toThrow(RangeError);
	});
});
