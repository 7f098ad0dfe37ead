import { describe, expect, test as it } from "vitest";
import { LatencyCounts } from "../../../../scripts/bench/latency-counts.ts";

describe("LatencyCounts", () => {
	it("tells the latency that a share of all is not above", () => {
		const counts = new LatencyCounts();
		for (let ms = 1; ms <= 100; ms += 1) counts.add(ms);
		expect(counts.count).toBe(100);
		expect(counts.quantileMs(0.5)).toBeCloseTo(50);
		expect(counts.quantileMs(0.99)).toBeCloseTo(99);
		expect(counts.quantileMs(1)).toBeCloseTo(100);
	});

	it("takes what is longer than a second for a second", () => {
		const counts = new LatencyCounts();
		counts.add(5_000);
		expect(counts.quantileMs(0.5)).toBeCloseTo(1_000);
	});

	it("has no figure without a latency", () => {
		expect(new LatencyCounts().quantileMs(0.5)).toBeNaN();
	});
});
