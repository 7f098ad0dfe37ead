import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import {
	compareIpAddresses,
	formatSocketAddress,
	ipFamilyOf,
	parseIpAddress,
} from "../../../src/services/address.ts";

describe("parseIpAddress()", () => {
	it.each([
		["10.0.0.1", "10.0.0.1"],
		["FD10:0:0::1", "fd10::1"],
		["::ffff:10.0.0.1", "10.0.0.1"],
		["::", "::"],
	])("reads %s as %s", (text, expected) => {
		expect(parseIpAddress(text)).toBe(expected);
	});

	it.each([
		"",
		"10.0.0",
		"010.0.0.1",
		"10.0.0.1/32",
		"fe80::1%eth0",
		"0x7f000001",
		"1",
		" 10.0.0.1",
	])("refuses %j", (text) => {
		expect(parseIpAddress(text)).toBeUndefined();
	});

	it("reads every address to one text that reads to itself", () => {
		fc.assert(
			fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
				const address = parseIpAddress(text);
				if (address === undefined) throw new Error(`not read: ${text}`);
				expect(parseIpAddress(address)).toBe(address);
				expect(compareIpAddresses(address, address)).toBe(0);
				expect(ipFamilyOf(address)).toBe(address.includes(":") ? "ipv6" : "ipv4");
			}),
			{ numRuns: 2_000 },
		);
	});
});

describe("compareIpAddresses()", () => {
	it("sorts by number, IPv4 first", () => {
		const texts = ["fd10::2", "10.0.0.10", "fd10::1", "9.255.255.255", "10.0.0.9", "255.0.0.1"];
		const addresses = texts
			.map((text) => parseIpAddress(text))
			.filter((each) => each !== undefined);
		expect(addresses.toSorted(compareIpAddresses)).toEqual([
			"9.255.255.255",
			"10.0.0.9",
			"10.0.0.10",
			"255.0.0.1",
			"fd10::1",
			"fd10::2",
		]);
	});
});

describe("formatSocketAddress()", () => {
	it("brackets IPv6 (classic 9.7.1)", () => {
		expect(formatSocketAddress("10.0.0.1", 80)).toBe("10.0.0.1:80");
		expect(formatSocketAddress("fd10::1", 80)).toBe("[fd10::1]:80");
	});
});
