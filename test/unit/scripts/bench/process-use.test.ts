import { describe, expect, test as it } from "vitest";
import {
	openDescriptors,
	parseProcessorSeconds,
	parseResidentBytes,
	processorSeconds,
	residentBytes,
} from "../../../../scripts/bench/process-use.ts";

describe("parseProcessorSeconds", () => {
	it("adds user and system time, whatever the program is called", () => {
		const stat = "42 (node (x) y) S 1 42 42 0 -1 4194304 1 0 0 0 150 75 9 9 20 0 7 0 100";
		expect(parseProcessorSeconds(stat)).toBe(2.25);
	});
});

describe("parseResidentBytes", () => {
	it("reads what is in memory, not what was at most", () => {
		expect(parseResidentBytes("VmHWM:\t  9000 kB\nVmRSS:\t  2048 kB\n")).toBe(2_097_152);
	});
});

describe("what processes use", () => {
	it("is nothing where none is known", () => {
		expect([processorSeconds([]), residentBytes([]), openDescriptors([])]).toEqual([0, 0, 0]);
	});

	it("is read from /proc, and summed", () => {
		expect(residentBytes([process.pid])).toBeGreaterThan(1_000_000);
		expect(openDescriptors([process.pid, process.pid])).toBeGreaterThan(5);
		expect(processorSeconds([process.pid])).toBeGreaterThan(0);
	});
});
