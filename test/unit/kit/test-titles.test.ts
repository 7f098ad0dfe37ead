import { describe, expect, test as it } from "vitest";
import { numbersInTitle, readTestTitles } from "../../kit/test-titles.ts";

describe("readTestTitles()", () => {
	it("finds tests, groups, tests of a table, suites of engines and scenarios", () => {
		const titles = readTestTitles();
		const filesOf = (start: string) =>
			titles.filter(({ title }) => title.startsWith(start)).map(({ file }) => file);
		expect(filesOf("finds tests, groups, tests of a table")).toContain(
			"unit/kit/test-titles.test.ts",
		);
		expect(filesOf("the UDP relay's sweep")).toEqual(["unit/proxies/udp/udp-relay.test.ts"]);
		expect(filesOf("carries %i bytes whole both ways")).toEqual(["conformance/udp.ts"]);
		expect(filesOf("A node port is on every address")).toEqual(["scenarios/node-port.yaml"]);
		expect(titles.length).toBeGreaterThan(1500);
	});
});

describe("numbersInTitle()", () => {
	it.each([
		["serves (classic 9.1.3)", ["9.1.3"]],
		["serves (classic 9.1.3, 9.8.2)", ["9.1.3", "9.8.2"]],
		["serves (case 9b, classic 9.1.3)", ["9.1.3"]],
		["serves (classic 9.1.3, case 1, 9b)", ["9.1.3"]],
		["serves (kubernetes#12242) (classic 9.1.3)", ["9.1.3"]],
		["serves (%s) (classic 9.1.3)", ["9.1.3"]],
		["serves (classic 9.1.3) a client", []],
		["serves the classic 9.1.3", []],
		["serves (9.1.3)", []],
		["serves", []],
	])("in %j are %j", (title, numbers) => {
		expect(numbersInTitle(title, "classic")).toEqual(numbers);
	});
});
