import { describe, expect, test as it } from "vitest";
import type { CellFooting } from "../../../../scripts/bench/cell.ts";
import {
	disturbancesOf,
	problemsBefore,
	summarizeFooting,
} from "../../../../scripts/bench/footing.ts";
import { cell, QUIET } from "./cells.ts";

const good = {
	processors: 2,
	kernel: "6.1.0",
	conntrackMax: 262_144,
	descriptorLimit: 20_000,
	otherLoad: 0.02,
};

describe("problemsBefore", () => {
	it("has nothing against a quiet machine with room for all connections", () => {
		expect(problemsBefore(good, 6, true)).toEqual([]);
	});

	it.each([
		[{ processors: 1 }, "there is 1 processor, wanted 2"],
		[{ conntrackMax: 65_536 }, "nf_conntrack_max is 65536, wanted 240000 for 6 s"],
		[{ conntrackMax: Number.NaN }, "nf_conntrack_max is NaN, wanted 240000 for 6 s"],
		[{ descriptorLimit: 1_024 }, "1024 files open, wanted 18000"],
		[{ otherLoad: 0.5 }, "other programs use 50 % of the processors, wanted at most 10 %"],
	])("says what is wrong: %j", (wrong, problem) => {
		expect(problemsBefore({ ...good, ...wrong }, 6, true)).toEqual([
			expect.stringContaining(problem),
		]);
	});

	it("wants a bigger table for longer measurements", () => {
		expect(problemsBefore(good, 7, true)).toEqual([expect.stringContaining("wanted 280000 for 7")]);
	});

	it("wants descriptors only for idle connections", () => {
		expect(problemsBefore({ ...good, descriptorLimit: 1_024 }, 6, false)).toEqual([]);
	});
});

const DISTURBANCES: readonly (readonly [Partial<CellFooting>, string])[] = [
	[{ otherLoad: 0.2 }, "other load 20 %"],
	[{ stolen: 0.06 }, "6 % stolen by other guests"],
	[{ clientTimeWait: 60_000 }, "60000 ports of the client in TIME_WAIT"],
	[{ nodeTimeWait: 60_000 }, "60000 ports of the node in TIME_WAIT"],
	[{ conntrack: 0.95 }, "connection tracking 95 % full"],
];

describe("disturbancesOf", () => {
	it("has none where nothing else went on", () => {
		expect(disturbancesOf(QUIET)).toEqual([]);
	});

	it.each(DISTURBANCES)("says what went on: %j", (footing, disturbance) => {
		expect(disturbancesOf({ ...QUIET, ...footing })).toEqual([disturbance]);
	});
});

describe("summarizeFooting", () => {
	const cells = (disturbed: number, all: number) =>
		Array.from({ length: all }, (_, index) =>
			cell("new nginx", {}, { footing: { ...QUIET, otherLoad: index < disturbed ? 0.3 : 0 } }),
		);

	it("bears a few measurements that were disturbed, of many", () => {
		expect(summarizeFooting(cells(4, 40)).isGood).toBe(true);
		expect(summarizeFooting(cells(5, 40)).isGood).toBe(false);
		expect(summarizeFooting(cells(1, 3)).isGood).toBe(true);
		expect(summarizeFooting(cells(2, 3)).isGood).toBe(false);
	});

	it("tells the worst of all measurements in one line", () => {
		const more = cell("new nginx", {}, { footing: { ...QUIET, stolen: 0.02, nodeTimeWait: 12 } });
		expect(summarizeFooting([...cells(1, 9), more]).text).toBe(
			"1 of 10 measurements disturbed (at most 1 may be); other load up to 30 %; stolen up to 2 %; TIME_WAIT up to 0 (client), 12 (node); connection tracking up to 0 % full",
		);
	});
});
