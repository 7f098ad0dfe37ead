import { describe, expect, test as it } from "vitest";
import { Backoff } from "../../../src/shared/backoff.ts";

describe("Backoff", () => {
	it("grows by the factor up to the maximum, and starts over after reset()", () => {
		const backoff = new Backoff({ initialMs: 800, maxMs: 3_000, factor: 2, jitter: 0 });
		expect([backoff.next(), backoff.next(), backoff.next(), backoff.next()]).toEqual([
			800, 1_600, 3_000, 3_000,
		]);
		backoff.reset();
		expect(backoff.next()).toBe(800);
	});

	it("jitter makes a wait longer by up to its share, never shorter", () => {
		const waits = [0, 0.5, 0.999].map((random) =>
			new Backoff({
				initialMs: 100,
				maxMs: 100,
				factor: 1,
				jitter: 1,
				random: () => random,
			}).next(),
		);
		expect(waits).toEqual([100, 150, 199.9]);
	});

	it("refuses a maximum below the first wait", () => {
		expect(() => new Backoff({ initialMs: 10, maxMs: 5, factor: 2, jitter: 0 })).toThrow(
			RangeError,
		);
	});
});
