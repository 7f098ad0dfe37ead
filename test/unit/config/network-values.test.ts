import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import {
	allowedRanges,
	detectLocalMode,
	interfaceName,
	nodePortAddresses,
	ranges,
} from "../../../src/config/network-values.ts";

const wantedOf = (parsed: object): unknown => ("wanted" in parsed ? parsed.wanted : undefined);
const NOTHING = { isAll: false, isPrimary: false, isLocalhost: false, ranges: [] };

/** As many ranges as asked for. */
const listOf = (count: number): string =>
	Array.from({ length: count }, (_, index) => `10.0.${index}.0/24`).join(",");

/** What is no list of ranges. */
const NO_RANGES = [
	"10.0.0.0",
	"10.0.0.0/33",
	"fd00::/129",
	"10.0.0/8",
	"10.0.0.0/08",
	"10.0.0.0/-1",
	"10.0.0.0/8,",
	",10.0.0.0/8",
	"10.0.0.0/8,,10.1.0.0/16",
	"10.0.0.0/8 10.1.0.0/16",
	"10.0.0.0/8;10.1.0.0/16",
	"0x0a.0.0.0/8",
	"example.com/8",
	"nonsense",
	listOf(101),
];

describe("ranges() (classic 9.7.6)", () => {
	it.each([
		["", []],
		["  ", []],
		["10.0.0.0/8", ["10.0.0.0/8"]],
		[" 10.0.0.0/8 , fd00::/8 ", ["10.0.0.0/8", "fd00::/8"]],
		["10.9.8.7/8,10.0.0.0/8", ["10.0.0.0/8"]],
		["FD00:0::/8", ["fd00::/8"]],
		["0.0.0.0/0,::/0", ["0.0.0.0/0", "::/0"]],
	])("reads %j", (text, value) => {
		expect(ranges(text)).toEqual({ value });
	});

	it.each(NO_RANGES)("refuses %j, and says what it wants", (text) => {
		expect(wantedOf(ranges(text))).toMatch(/^at most 100 ranges .* such as /);
	});

	it("takes a hundred", () => {
		expect(ranges(listOf(100))).toMatchObject({ value: { length: 100 } });
	});
});

describe("allowedRanges()", () => {
	it("means all by nothing, and none by none", () => {
		expect(allowedRanges("")).toEqual({ value: undefined });
		expect(allowedRanges(" ")).toEqual({ value: undefined });
		expect(allowedRanges("none")).toEqual({ value: [] });
		expect(allowedRanges(" none ")).toEqual({ value: [] });
		expect(allowedRanges("203.0.113.0/24")).toEqual({ value: ["203.0.113.0/24"] });
	});

	it.each([...NO_RANGES, "None", "none,10.0.0.0/8", "all"])("refuses %j", (text) => {
		expect(wantedOf(allowedRanges(text))).toMatch(/, or none$/);
	});
});

describe("nodePortAddresses() (classic 9.7.6)", () => {
	it.each([
		["", { isAll: true }],
		[" ", { isAll: true }],
		["all", { isAll: true }],
		["primary", { isPrimary: true }],
		["localhost", { isLocalhost: true }],
		["10.0.0.0/8", { ranges: ["10.0.0.0/8"] }],
		["fd00::/8, localhost , primary", { isLocalhost: true, isPrimary: true, ranges: ["fd00::/8"] }],
		["all,10.0.0.0/8", { isAll: true, ranges: ["10.0.0.0/8"] }],
	])("reads %j", (text, fields) => {
		expect(nodePortAddresses(text)).toEqual({ value: { ...NOTHING, ...fields } });
	});

	it.each([
		...NO_RANGES.filter((text) => !/^,|,$|,,/.test(text)),
		"Primary",
		"node",
		"primary all",
	])("refuses %j", (text) => {
		expect(wantedOf(nodePortAddresses(text))).toMatch(/"primary", "localhost", "all"$/);
	});
});

describe("detectLocalMode()", () => {
	it("is ClusterCIDR where nothing is given, and takes kube-proxy's words as they are", () => {
		expect(detectLocalMode("")).toEqual({ value: "ClusterCIDR" });
		for (const mode of ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"]) {
			expect(detectLocalMode(mode)).toEqual({ value: mode });
		}
	});

	it.each(["clustercidr", "ClusterCIDR ", "LocalMode", "NodeCIDR,ClusterCIDR"])(
		"refuses %j",
		(text) => {
			expect(wantedOf(detectLocalMode(text))).toContain("InterfaceNamePrefix");
		},
	);
});

describe("interfaceName()", () => {
	it.each(["cni0", "br-12", "eth0.100", "eth0:1", "_x", "a@b", "abcdefghijklmno"])(
		"takes %j",
		(text) => {
			expect(interfaceName(0)(` ${text} `)).toEqual({ value: text });
		},
	);

	it.each(["cali+", "+", "-i", ".", "..", "a b", "a/b", "é", "a\nb", "!", '"', "abcdefghijklmnop"])(
		"refuses %j, which iptables would take for something else",
		(text) => {
			expect(wantedOf(interfaceName(0)(text))).toMatch(/^an interface's name: 1 to 15 /);
		},
	);

	it("is one character less where it is only the beginning", () => {
		expect(interfaceName(1)("abcdefghijklmn")).toEqual({ value: "abcdefghijklmn" });
		expect(wantedOf(interfaceName(1)("abcdefghijklmno"))).toMatch(/^the beginning of .*: 1 to 14 /);
		expect(interfaceName(1)("")).toEqual({ value: undefined });
	});
});

describe("parsers of network values", () => {
	const PARSERS = [ranges, allowedRanges, nodePortAddresses, detectLocalMode, interfaceName(0)];

	it("never throw, whatever the text, and either give a value or say what they want", () => {
		const text = fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), fc.stringMatching(/^[0-9a-f:./, ]+$/));
		fc.assert(
			fc.property(text, (some) => {
				for (const parse of PARSERS) expect(Object.keys(parse(some))).toHaveLength(1);
			}),
			{ numRuns: 500 },
		);
	});
});
