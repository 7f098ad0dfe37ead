import { describe, expect, test as it } from "vitest";
import { Results } from "../../../../scripts/bench/results.ts";
import { cell, failedCell } from "./cells.ts";

describe("Results", () => {
	it("has the median of the rounds, and how far they are apart", () => {
		const results = new Results([
			cell("new nginx 1", { "new.rate": 9 }),
			cell("new nginx 2", { "new.rate": 12 }),
			cell("new nginx 3", { "new.rate": 10 }),
		]);
		expect(results.spread("new.rate", "nginx")).toEqual({ median: 10, min: 9, max: 12 });
		expect(results.spread("new.rate", "haproxy")).toBeUndefined();
	});

	it("compares what was measured in the same round: a machine that slows down changes no ratio", () => {
		const results = new Results([
			cell("new nginx 1", { "new.rate": 10 }),
			cell("new syscall 1", { "new.rate": 15 }),
			cell("new nginx 2", { "new.rate": 2 }),
			cell("new syscall 2", { "new.rate": 3 }),
			cell("new syscall 3", { "new.rate": 100 }),
		]);
		expect(results.ratio("new.rate", "syscall", "nginx")).toEqual({
			median: 1.5,
			min: 1.5,
			max: 1.5,
		});
	});

	it("has more for better where less of the unit is", () => {
		const results = new Results([
			cell("new nginx", { "new.p99": 4 }),
			cell("new syscall", { "new.p99": 2 }),
		]);
		expect(results.ratio("new.p99", "syscall", "nginx")?.median).toBe(2);
	});

	it("has no ratio to nothing", () => {
		const results = new Results([
			cell("idle nginx", { "idle.memory": 0 }),
			cell("idle syscall", { "idle.memory": 2 }),
		]);
		expect(results.ratio("idle.memory", "syscall", "nginx")).toBeUndefined();
	});

	it("takes from the latency of a lone request what it takes without a proxy in the same round", () => {
		const results = new Results([
			cell("lone direct 1", { "lone.p50": 40 }),
			cell("lone syscall 1", { "lone.p50": 70 }),
			cell("lone direct 2", { "lone.p50": 60 }),
			cell("lone syscall 2", { "lone.p50": 92 }),
			cell("lone syscall 3", { "lone.p50": 500 }),
		]);
		expect(results.spread("lone.added", "syscall")).toEqual({ median: 31, min: 30, max: 32 });
		expect(results.spread("lone.added", "direct")).toBeUndefined();
	});

	it("has rows for what was measured, and for what failed everywhere", () => {
		const results = new Results([cell("new nginx", { "new.rate": 9 }), failedCell("bulk nginx")]);
		expect(results.keys).toEqual(["bulk.rate", "new.rate"]);
		expect(results.failures("bulk.rate", "nginx")).toBe(1);
		expect(results.failures("new.rate", "nginx")).toBe(0);
	});
});
