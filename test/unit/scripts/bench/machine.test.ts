import { describe, expect, test as it } from "vitest";
import {
	busyShare,
	parseDescriptorLimit,
	parseProcessorTimes,
	parseVersion,
	stolenShare,
} from "../../../../scripts/bench/machine.ts";

function stat(times: string): string {
	return `cpu  ${times} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 99\n`;
}

describe("parseProcessorTimes", () => {
	it("sums the line of all processors; waiting for a disk is idle", () => {
		expect(parseProcessorTimes(stat("10 20 30 400 5 6 7 8"))).toEqual({
			all: 486,
			idle: 405,
			stolen: 8,
		});
	});
});

describe("busyShare and stolenShare", () => {
	const before = parseProcessorTimes(stat("10 0 0 100 0 0 0 5"));

	it("are shares of the time between two moments", () => {
		const after = parseProcessorTimes(stat("30 0 0 150 0 0 0 15"));
		expect(busyShare(before, after)).toBeCloseTo(30 / 80);
		expect(stolenShare(before, after)).toBeCloseTo(10 / 80);
	});

	it("are nothing where no time has passed", () => {
		expect([busyShare(before, before), stolenShare(before, before)]).toEqual([0, 0]);
	});
});

describe("parseDescriptorLimit", () => {
	it.each([
		["1024                 20000", 20_000],
		["1024                 unlimited", Number.POSITIVE_INFINITY],
	])("reads the hard limit: %s", (values, limit) => {
		const limits = `Limit  Soft Limit  Hard Limit  Units\nMax open files            ${values}  files\n`;
		expect(parseDescriptorLimit(limits)).toBe(limit);
	});
});

describe("parseVersion", () => {
	it.each([
		["HAProxy version 2.6.12-1+deb12u3 2025/10/03 - https://haproxy.org/", "2.6.12-1+deb12u3"],
		["\nnginx version: nginx/1.22.1", "1.22.1"],
		["wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer", "4.1.0-3+b2"],
		["command not found", "unknown"],
	])("reads %s", (output, version) => {
		expect(parseVersion(output)).toBe(version);
	});
});
