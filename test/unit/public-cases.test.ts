import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { numbersInTitle, readTestTitles } from "../kit/test-titles.ts";

const doc = readFileSync(new URL("../public-cases.md", import.meta.url), "utf8");

/** "9", its case and variants: the first cells of the rows. */
const ids = [...doc.matchAll(/^\| \**(\d+[a-z]?)\** \|/gm)].map(([, id = ""]) => id);
const isVariantOf = (id: string, other: string): boolean => /^[a-z]$/.test(other.slice(id.length));

/** What tests have to show: variants, and cases that have none. */
const wanted = ids.filter(
	(id) => !ids.some((other) => other.startsWith(id) && isVariantOf(id, other)),
);
const shown = readTestTitles().flatMap(({ file, title }) =>
	numbersInTitle(title, "case").map((id) => ({ file, title, id })),
);

describe("test/public-cases.md", () => {
	it("has each case once, with a link to its report", () => {
		expect(wanted.length).toBeGreaterThan(100);
		expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
		const heads = doc.split("\n").filter((line) => line.startsWith("| **"));
		expect(heads.filter((line) => !line.includes("](https://github.com/"))).toEqual([]);
		expect(heads.length).toBe(new Set(ids.map((id) => Number.parseInt(id, 10))).size);
	});

	it("has a test for each case", () => {
		expect(wanted.filter((id) => !shown.some((one) => one.id === id))).toEqual([]);
	});

	it("has a row for each case that a title names", () => {
		expect(shown.filter(({ id }) => !wanted.includes(id))).toEqual([]);
	});

	it("is named in titles in one way", () => {
		const odd = readTestTitles().filter(
			({ title }) =>
				/\(.*\bcases? \d+[a-z]?\b/.test(title) && numbersInTitle(title, "case").length === 0,
		);
		expect(odd).toEqual([]);
	});
});
