import { expect, test as it } from "vitest";
import { formatPortRange, parsePortRange } from "../../../src/config/port-range.ts";

it.each([
	["30000", 30_000, 30_000],
	["30000-32767", 30_000, 32_767],
	["30000-30000", 30_000, 30_000],
	["30000+100", 30_000, 30_100],
	["30000+0", 30_000, 30_000],
	["1-65535", 1, 65_535],
	[" 30000-30001 ", 30_000, 30_001],
])("parsePortRange(%j) is %d to %d", (text, first, last) => {
	expect(parsePortRange(text)).toEqual({ range: { first, last } });
});

it.each(["", " ", "0", "0-0", "0+0", "0-100"])(
	"parsePortRange(%j) leaves it to the kernel (classic 9.3.1)",
	(text) => {
		expect(parsePortRange(text)).toEqual({ range: undefined });
	},
);

it.each([
	"a",
	"-1",
	"65536",
	"1-65536",
	"65535+1",
	"2-1",
	"1-2-3",
	"1+2-3",
	"1-2+3",
	"1-",
	"+5",
	"1.5",
	"0-70000",
	"0x10",
	"1,2",
	"999999",
])("parsePortRange(%j) is no range (classic 9.3.1)", (text) => {
	expect(parsePortRange(text)).toBeUndefined();
});

it("formatPortRange() is read back by parsePortRange()", () => {
	for (const text of ["", "30000-30000", "1-65535"]) {
		expect(formatPortRange(parsePortRange(text)?.range)).toBe(text);
	}
});
