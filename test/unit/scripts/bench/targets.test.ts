import { describe, expect, test as it } from "vitest";
import type { FigureKey } from "../../../../scripts/bench/figures.ts";
import { Results } from "../../../../scripts/bench/results.ts";
import { judgeTargets } from "../../../../scripts/bench/targets.ts";
import { cell } from "./cells.ts";

function outcomesOf(key: FigureKey, ours: number, other: string, theirs: number) {
	const [measurement = ""] = key.split(".");
	const cells = [
		cell(`${measurement} syscall`, { [key]: ours }),
		cell(`${measurement} ${other}`, { [key]: theirs }),
	];
	return judgeTargets(new Results(cells));
}

describe("judgeTargets", () => {
	it.each([
		["bulk.rate", 16, "haproxy", 10, true],
		["bulk.rate", 15.94, "haproxy", 10, false],
		["keepalive256.rate", 55, "direct", 100, true],
		["new.rate", 19, "stream", 10, false],
		["udp1400.rate", 15, "nginx", 10, true],
	] as const)("%s: %d to %s's %d", (key, ours, other, theirs, isReached) => {
		expect(outcomesOf(key, ours, other, theirs)).toEqual([expect.objectContaining({ isReached })]);
	});

	it("wants latencies to be a share of the others'", () => {
		expect(outcomesOf("new.p99", 3, "stream", 5)).toEqual([
			{
				label: "new connections, p99: syscall to stream",
				wanted: "≤ 0.60",
				got: 0.6,
				isReached: true,
			},
		]);
		expect(outcomesOf("new.p99", 11, "haproxy", 10)[0]).toMatchObject({
			got: 1.1,
			isReached: false,
		});
	});

	it("wants little memory and two descriptors for an idle connection", () => {
		const results = new Results([
			cell("idle syscall", { "idle.memory": 4.1, "idle.descriptors": 2.0004 }),
		]);
		expect(judgeTargets(results)).toEqual([
			expect.objectContaining({ wanted: "≤ 4.00", got: 4.1, isReached: false }),
			expect.objectContaining({ wanted: "≤ 2.00", got: 2, isReached: true }),
		]);
	});

	it("says nothing of what was not measured", () => {
		expect(outcomesOf("bulk8.rate", 9, "haproxy", 1)).toEqual([]);
		expect(judgeTargets(new Results([]))).toEqual([]);
	});
});
