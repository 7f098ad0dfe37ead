import { describe, expect, test as it } from "vitest";
import { spreadOf } from "../../../../scripts/bench/statistics.ts";

describe("spreadOf", () => {
	it.each([
		{ values: [7], spread: { median: 7, min: 7, max: 7 } },
		{ values: [10, 9, 100], spread: { median: 10, min: 9, max: 100 } },
		{ values: [1, 2, 4, 100], spread: { median: 3, min: 1, max: 100 } },
	])("$values", ({ values, spread }) => {
		expect(spreadOf(values)).toEqual(spread);
	});
});
