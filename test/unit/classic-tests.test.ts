import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { numbersInTitle, readTestTitles } from "../kit/test-titles.ts";

const doc = readFileSync(new URL("../classic-tests.md", import.meta.url), "utf8");

/** `| 9.1.3 | behaviour | here |`. */
const rows = [...doc.matchAll(/^\| (9\.\d+\.\d+) \| (.*) \|(?: (.*))? \|$/gm)].map(
	([, number = "", behaviour = "", here = ""]) => ({ number, behaviour, here }),
);
const isWithoutMeaning = ({ here }: (typeof rows)[number]) => /^No meaning here: .{20,}/.test(here);
const covered = rows.filter((row) => !isWithoutMeaning(row)).map(({ number }) => number);

const titles = readTestTitles();
const named = new Map(
	titles.flatMap(({ file, title }) =>
		numbersInTitle(title, "classic").map((number) => [number, `${file}: ${title}`] as const),
	),
);

describe("test/classic-tests.md", () => {
	it("has every number of the list once, in order, with a behaviour", () => {
		const counts = [38, 12, 3, 12, 6, 4, 7, 14];
		const wanted = counts.flatMap((count, section) =>
			Array.from({ length: count }, (_, index) => `9.${section + 1}.${index + 1}`),
		);
		expect(rows.map(({ number }) => number)).toEqual(wanted);
		expect(rows.filter(({ behaviour }) => behaviour.trim() === "")).toEqual([]);
	});

	it("has a test for every behaviour that has a meaning here", () => {
		expect(covered.filter((number) => !named.has(number))).toEqual([]);
		expect(rows.length - covered.length).toBeLessThan(5);
	});

	it("has every number that a test names", () => {
		const known = new Set(covered);
		expect([...named].filter(([number]) => !known.has(number))).toEqual([]);
	});

	it("names no file of a test, as titles name its numbers", () => {
		const text = rows.map(({ behaviour, here }) => `${behaviour} ${here}`).join("\n");
		expect(text).not.toMatch(/\.test\.ts|\.yaml/);
	});
});
