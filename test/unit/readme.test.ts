import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { FLAGS } from "../../src/config/flags.ts";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

describe("README.md", () => {
	it("has the flags as they are", () => {
		const section = readme.split(/<!-- flags.*-->\n/)[1]?.split("\n<!-- /flags -->")[0];
		const rows = Object.entries(FLAGS).map(([name, flag]) => {
			const value = flag.placeholder === undefined ? "" : ` ${flag.placeholder}`;
			const fallback = (flag.default ?? "") === "" ? "–" : `\`${flag.default}\``;
			return `| \`--${name}${value}\` | ${fallback} | ${flag.help} |`;
		});
		expect(section).toBe(["| Flag | Default | What |", "|---|---|---|", ...rows].join("\n"));
	});

	it("links to files that are there", () => {
		const links = [...readme.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, path]) => path ?? "");
		expect(links.length).toBeGreaterThan(5);
		for (const path of links.filter((link) => !link.endsWith("/"))) {
			expect(() => readFileSync(new URL(`../../${path}`, import.meta.url)), path).not.toThrow();
		}
	});
});
