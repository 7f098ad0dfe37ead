import { describe, expect, test as it } from "vitest";
import { humanBytes, humanDuration } from "../../../src/observe/units.ts";

describe("humanBytes()", () => {
	it.each([
		[0, "0 B"],
		[999, "999 B"],
		[1_000, "1.0 kB"],
		[999_949, "999.9 kB"],
		[999_950, "1.0 MB"],
		[4_200_000_000, "4.2 GB"],
		[5_000_000_000_000_000, "5000.0 TB"],
	])("%d is %s", (bytes, text) => {
		expect(humanBytes(bytes)).toBe(text);
	});
});

describe("humanDuration()", () => {
	it.each([
		[0.44, "0.4 ms"],
		[9.94, "9.9 ms"],
		[9.96, "10 ms"],
		[999.4, "999 ms"],
		[999.6, "1.0 s"],
		[59_940, "59.9 s"],
		[60_000, "1 min 0 s"],
		[3_599_600, "1 h 0 min"],
		[90_061_000, "25 h 1 min"],
	])("%d ms is %s", (ms, text) => {
		expect(humanDuration(ms)).toBe(text);
	});
});
