import { readFileSync } from "node:fs";
import { expect, test as it } from "vitest";
import { flagsDocument } from "../../../scripts/flags-doc.ts";
import type { FlagSpec } from "../../../src/config/flag-spec.ts";
import { dashed, FLAG_NAMES, FLAGS, parseFlag } from "../../../src/config/flags.ts";

const document = readFileSync(new URL("../../../docs/flags.md", import.meta.url), "utf8");

it("docs/flags.md is what scripts/flags-doc.ts prints", () => {
	expect(document).toBe(flagsDocument());
});

it.each(FLAG_NAMES)("--%s has a row in docs/flags.md", (name) => {
	expect(document).toMatch(new RegExp(`^\\| \`${dashed(name)}[\` ]`, "m"));
});

it.each(FLAG_NAMES)("the default of --%s is a value that it takes", (name) => {
	const spec: FlagSpec<unknown> = FLAGS[name];
	expect(parseFlag(name, spec.default ?? "x")).toHaveProperty("value");
});

it.each(FLAG_NAMES)("the help of --%s is one line that does not end with a full stop", (name) => {
	expect(FLAGS[name].help).toMatch(/^[^\n]+[^.\n]$/);
});

it.each([
	["true", true],
	["1", true],
	["T", true],
	["False", false],
	["0", false],
])("a switch takes %j, as Go's flags do", (text, value) => {
	expect(parseFlag("bind-address-hard-fail", text)).toEqual({ value });
});

it("a switch takes nothing else", () => {
	expect(parseFlag("cleanup", "yes")).toEqual({ wanted: "true or false" });
});
