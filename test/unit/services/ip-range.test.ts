import { describe, expect, test as it } from "vitest";
import { isInRange, parseIpRange, rangeOf } from "../../../src/services/ip-range.ts";
import { anAddress } from "../../kit/bindings.ts";
import { aRange } from "../../kit/ranges.ts";

describe("parseIpRange()", () => {
	it.each([
		["10.244.3.1/16", "10.244.0.0/16"],
		["0.0.0.0/0", "0.0.0.0/0"],
		["192.0.2.7/32", "192.0.2.7/32"],
		["FD00:10::1/64", "fd00:10::/64"],
		["::/0", "::/0"],
	])("reads %s as %s", (text, range) => {
		expect(parseIpRange(text)).toBe(range);
	});

	it.each([
		"",
		"10.0.0.1",
		"10.0.0.0/33",
		"10.0.0.0/08",
		"10.0.0.0/8/8",
		"10.0.0.0/-1",
		"10.0.0/8",
		"fd00::/129",
		"::ffff:10.0.0.0/104",
		"::ffff:0:0/96",
		"fe80::%eth0/64",
		" 10.0.0.0/8",
	])("refuses %j", (text) => {
		expect(parseIpRange(text)).toBeUndefined();
	});
});

describe("isInRange()", () => {
	it.each([
		["10.244.9.9", "10.244.0.0/16", true],
		["10.245.0.1", "10.244.0.0/16", false],
		["10.0.0.1", "::/0", false],
		["fd00:10::5", "fd00:10::/64", true],
		["fd00:11::5", "fd00:10::/64", false],
		["fd00::1", "0.0.0.0/0", false],
	])("%s in %s: %s", (address, range, isIn) => {
		expect(isInRange(anAddress(address), aRange(range))).toBe(isIn);
	});

	it("a range of one address holds that one", () => {
		const range = rangeOf(anAddress("fd00::1"));
		expect(range).toBe("fd00::1/128");
		expect(isInRange(anAddress("fd00::1"), range)).toBe(true);
		expect(isInRange(anAddress("fd00::2"), range)).toBe(false);
	});
});
