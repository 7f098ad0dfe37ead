import fc from "fast-check";
import { expect, test as it } from "vitest";
import { formatDuration, MAX_DURATION_MS, parseDuration } from "../../../src/config/duration.ts";

it.each([
	["0", 0],
	["0s", 0],
	["-0", 0],
	["250ms", 250],
	["1s", 1000],
	["1m30s", 90_000],
	["1h", 3_600_000],
	["1h0m0s", 3_600_000],
	["1.5s", 1500],
	[".5s", 500],
	["1.s", 1000],
	["500us", 1],
	["1500µs", 2],
	["1500μs", 2],
	["1ns", 1],
	["-5s", -5000],
	["+5s", 5000],
	["2147483647ms", MAX_DURATION_MS],
])("parseDuration(%j) is %d ms", (text, ms) => {
	expect(parseDuration(text)).toBe(ms);
});

it.each([
	"",
	" ",
	"abc",
	"30",
	"s",
	"1d",
	"1 s",
	"1s ",
	"1,5s",
	"1e3s",
	"--1s",
	".s",
	"NaNs",
	"2147483648ms",
	"99999999999999999999h",
	"1m30",
])("parseDuration(%j) is no duration", (text) => {
	expect(parseDuration(text)).toBeUndefined();
});

it.each([
	[0, "0s"],
	[250, "250ms"],
	[1500, "1.5s"],
	[90_000, "1m30s"],
	[900_000, "15m"],
	[3_600_001, "1h0.001s"],
	[-5000, "-5s"],
])("formatDuration(%d) is %j", (ms, text) => {
	expect(formatDuration(ms)).toBe(text);
});

it("formatDuration() is read back by parseDuration()", () => {
	fc.assert(
		fc.property(fc.integer({ min: -MAX_DURATION_MS, max: MAX_DURATION_MS }), (ms) => {
			expect(parseDuration(formatDuration(ms))).toBe(ms + 0);
		}),
	);
});
