import { describe, expect, test as it } from "vitest";
import { Results } from "../../../../scripts/bench/results.ts";
import { figuresTable, ratiosTable, targetsTable } from "../../../../scripts/bench/tables.ts";
import { cell, failedCell } from "./cells.ts";

const results = new Results([
	cell("new direct 1", { "new.rate": 17 }),
	cell("new haproxy 1", { "new.rate": 10, "new.p99": 4 }),
	cell("new syscall 1", { "new.rate": 15, "new.p99": 2 }),
	cell("new haproxy 2", { "new.rate": 123.4, "new.p99": 6 }),
	failedCell("new syscall 2"),
	failedCell("new nginx 1"),
]);

describe("figuresTable", () => {
	it("shows medians and their spread, what failed, and nobody who took no part", () => {
		expect(figuresTable(results, ["direct", "haproxy", "nginx", "socat", "syscall"])).toBe(
			[
				"                      direct           haproxy   nginx        syscall",
				"new connections, k/s    17.0   66.7 (10.0–123)  failed  15.0 1 failed",
				"… p99, ms                  –  5.00 (4.00–6.00)  failed  2.00 1 failed",
			].join("\n"),
		);
	});
});

describe("ratiosTable", () => {
	it("shows how many times better one is", () => {
		expect(ratiosTable(results, "syscall", ["direct", "haproxy", "nginx", "syscall"])).toBe(
			[
				"syscall to            direct  haproxy",
				"new connections, k/s    0.88     1.50",
				"… p99, ms                  –     2.00",
			].join("\n"),
		);
	});
});

describe("targetsTable", () => {
	it("says what is reached", () => {
		const outcomes = [
			{ label: "bulk", wanted: "≥ 1.60", got: 1.7, isReached: true },
			{ label: "new connections", wanted: "≤ 1.00", got: 1.25, isReached: false },
		];
		expect(targetsTable(outcomes)).toBe(
			[
				"target           wanted   got",
				"bulk             ≥ 1.60  1.70      reached",
				"new connections  ≤ 1.00  1.25  NOT reached",
			].join("\n"),
		);
	});
});
