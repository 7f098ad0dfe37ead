import { describe, expect, test as it } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/sources/kubernetes/limits.ts";
import { Pace } from "../../../../src/sources/kubernetes/pace.ts";

function aPace(random = 0) {
	let nowMs = 0;
	const waits: number[] = [];
	const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
	const pace = new Pace(
		DEFAULT_LIMITS,
		clock,
		() => random,
		(ms) => {
			waits.push(ms);
			nowMs += ms;
			return Promise.resolve();
		},
	);
	const { signal } = new AbortController();
	return {
		waits,
		wait: (atLeastMs = 0) => pace.wait(atLeastMs, signal),
		pass: (ms: number) => {
			nowMs += ms;
		},
	};
}

describe("Pace", () => {
	it("doubles from 0.8 s to 30 s", async () => {
		const { wait, waits } = aPace();
		for (let tries = 0; tries < 8; tries += 1) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await wait();
		}
		expect(waits).toEqual([800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
	});

	it("makes a wait up to twice as long", async () => {
		const { wait, waits } = aPace(0.5);
		await wait();
		expect(waits).toEqual([1_200]);
	});

	it("starts over after more than two calm minutes, and not before", async () => {
		const { wait, waits, pass } = aPace();
		await wait();
		pass(120_000);
		await wait();
		pass(120_001);
		await wait();
		expect(waits).toEqual([800, 1_600, 800]);
	});

	it("waits as long as the server asks, up to a minute", async () => {
		const { wait, waits } = aPace();
		await wait(5_000);
		await wait(3_600_000);
		expect(waits).toEqual([5_000, 60_000]);
	});

	it("ends a wait at the abort", async () => {
		const abort = new AbortController();
		const clock = { wallMs: () => 0, monotonicMs: () => 0 };
		const waiting = new Pace(DEFAULT_LIMITS, clock, () => 0).wait(30_000, abort.signal);
		abort.abort();
		await expect(waiting).resolves.toBeUndefined();
	});
});
