import { describe, expect, test as it } from "vitest";
import { ListPace } from "../../../../src/sources/kubernetes/list-pace.ts";

const limits = { listTotalMs: 300_000, streamWindowMs: 5_000, streamWindowObjects: 25 };

/** The times at which something came and the objects so far → when it was too slow. */
function firstTooSlow(...arrivals: readonly (readonly [number, number])[]): number | undefined {
	const pace = new ListPace(limits, 0);
	return arrivals.find(([nowMs, count]) => pace.isTooSlow(nowMs, count))?.[0];
}

describe("ListPace", () => {
	it("has patience with a long list on its way", () => {
		const arrivals = Array.from({ length: 3_000 }, (_, index) => [index * 100, index * 5] as const);
		expect(firstTooSlow(...arrivals)).toBeUndefined();
	});

	it("has patience with what is short, for one stretch of time", () => {
		expect(firstTooSlow([10, 3], [1_000, 3], [4_999, 3])).toBeUndefined();
		expect(firstTooSlow([10, 3], [4_999, 3], [5_000, 3])).toBe(5_000);
	});

	it("gives up when a list has come and only new objects come one by one", () => {
		const trickle = Array.from({ length: 60 }, (_, index) => [1_000 * index, 400 + index] as const);
		expect(firstTooSlow(...trickle)).toBe(10_000);
	});

	it("has patience with no list beyond the bound of all of it", () => {
		const arrivals = Array.from({ length: 3_100 }, (_, index) => [index * 100, index * 5] as const);
		expect(firstTooSlow(...arrivals)).toBe(300_100);
	});

	it("counts each stretch anew", () => {
		expect(firstTooSlow([5_000, 25], [10_000, 50], [15_000, 74])).toBe(15_000);
	});
});
