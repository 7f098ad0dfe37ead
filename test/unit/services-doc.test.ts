import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";

const at = (path: string): URL => new URL(path, new URL("../../docs/", import.meta.url));
const doc = readFileSync(at("services.md"), "utf8");

/** `[name]: path "title"` at the end of the document. */
const LINK = /^\[([a-z-]+)\]: (\S+) "(.+)"$/gm;
const tests = [...doc.matchAll(LINK)].map(([, name = "", path = "", title = ""]) => ({
	name,
	path,
	title,
}));
const names = new Set(tests.map(({ name }) => name));

const text = doc.replaceAll(LINK, "");
const used = [...text.matchAll(/\]\[([a-z-]+)\]/g)].map(([, name = ""]) => name);

/** The cells of every row of the tables, without heads and rules. */
const rows = text
	.split("\n")
	.filter((line) => line.startsWith("| ") && !line.startsWith("| Feature "))
	.map((line) =>
		line
			.slice(1, -1)
			.split("|")
			.map((cell) => cell.trim()),
	);

describe("docs/services.md", () => {
	it("leads to tests that are there", () => {
		expect(tests.length).toBeGreaterThan(60);
		const lost = tests.filter(({ path, title }) => {
			if (!path.startsWith("../test/") || !existsSync(at(path))) return true;
			const source = readFileSync(at(path), "utf8");
			// A test's name begins where its text does; what a scenario shows may be folded.
			return path.endsWith(".yaml")
				? !source.split("\nobjects:")[0]?.replaceAll(/\s+/g, " ").includes(title)
				: !source.includes(`"${title}`);
		});
		expect(lost).toEqual([]);
	});

	it("names each test once, and uses it", () => {
		expect(names.size).toBe(tests.length);
		expect(used.filter((name) => !names.has(name))).toEqual([]);
		expect([...names].filter((name) => !used.includes(name))).toEqual([]);
	});

	it("has a word for each mode in each row", () => {
		expect(rows.length).toBeGreaterThan(60);
		expect(rows.filter((cells) => cells.length !== 6 || cells.includes(""))).toEqual([]);
	});

	it("says no yes of ours without a test", () => {
		const bare = rows
			.map((cells) => cells.at(-1) ?? "")
			.filter((cell) => /\byes\b/.test(cell.replaceAll(/\[[^\]]*\]\[[a-z-]+\]/g, "")));
		expect(bare).toEqual([]);
		const silent = rows.filter((cells) => !/\]\[|^no\b|^all$/.test(cells.at(-1) ?? ""));
		expect(silent).toEqual([]);
	});
});
