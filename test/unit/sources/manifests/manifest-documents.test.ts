import { describe, expect, it } from "vitest";
import {
	MAX_DOCUMENTS,
	MAX_YAML_CHARACTERS,
	type ManifestDocument,
	readDocuments,
} from "../../../../src/sources/manifests/manifest-documents.ts";

const documents = (text: string): ManifestDocument[] =>
	[...readDocuments(text)].filter((document) => document !== undefined);
const contents = (text: string) => documents(text).map(({ content }) => content);

const TOO_DEEP = "wanted nesting at most 200 deep, got more";

/** Each unit is one blank further to the right than the one before. */
const indented = (depth: number, unit: string): string =>
	Array.from({ length: depth }, (_, n) => `${" ".repeat(n)}${unit}`).join("");

describe("readDocuments()", () => {
	it("gives the values of JSON and of YAML, numbered from 1", () => {
		expect(contents('{"a": [1]}')).toEqual([{ value: { a: [1] } }]);
		expect(contents("a: [1]\n---\nb: 2\n")).toEqual([{ value: { a: [1] } }, { value: { b: 2 } }]);
		expect(documents("a: 1\n---\nb: 2\n").map(({ number }) => number)).toEqual([1, 2]);
	});

	it("goes on after a document with a syntax error, and gives its line", () => {
		expect(contents("a: 1\n---\nb: [\n---\nc: 3\n")).toEqual([
			{ value: { a: 1 } },
			{ fault: expect.stringContaining("Flow sequence"), line: 4 },
			{ value: { c: 3 } },
		]);
	});

	it("refuses a key that is there twice", () => {
		expect(contents("a: 1\nb:\n  c: 1\n  c: 2\n")).toEqual([
			{ fault: 'the key "c" is there twice', line: 4 },
		]);
	});

	it("makes an own property of __proto__", () => {
		for (const text of ['{"__proto__": {"x": 1}}', "__proto__: {x: 1}\n"]) {
			const [content] = contents(text);
			expect(content).toHaveProperty("value");
			expect(Object.getOwnPropertyNames(content && "value" in content && content.value)).toEqual([
				"__proto__",
			]);
		}
	});

	it.each([
		["flow lists", "[".repeat(100_000)],
		["flow maps", "{a: ".repeat(100_000)],
		["lists in a line", "- ".repeat(100_000)],
		["keys in a line", "? ".repeat(100_000)],
	])("refuses %s that are nested without end, soon", (_what, text) => {
		expect(contents(text)).toEqual([{ fault: TOO_DEEP, line: 1 }]);
	});

	it.each([
		["maps", "a:\n"],
		["lists", "-\n"],
		["maps with comments and blank lines between", "a: # b\n\n# c\n"],
	])("refuses %s that are nested by indentation, and says where", (_what, unit) => {
		const lines = (unit.match(/\n/g) ?? []).length;
		for (const depth of [201, 4_000]) {
			expect(contents(`x: 1\n---\n${indented(depth, unit)}`)).toEqual([
				{ value: { x: 1 } },
				{ fault: TOO_DEEP, line: 3 + 200 * lines },
			]);
		}
		expect(contents(indented(200, unit))[0]).toHaveProperty("value");
	});

	it("counts brackets, indentation and lists in a line together", () => {
		expect(contents(`${indented(150, "a:\n")}${" ".repeat(150)}${"- ".repeat(60)}`)).toEqual([
			{ fault: TOO_DEEP, line: 151 },
		]);
		expect(contents(`${indented(150, "a:\n")}${" ".repeat(150)}${"[".repeat(60)}`)).toEqual([
			{ fault: TOO_DEEP, line: 151 },
		]);
	});

	it("takes no text for nesting: in scalars, comments and flow collections", () => {
		const stairs = indented(300, "x\n");
		const comments = indented(300, "# x\n");
		const flow = `[\n${indented(300, "x,\n").replaceAll(/^/gm, "    ")}]`;
		const text = `a: |2\n  ${stairs.replaceAll("\n", "\n  ")}\nb:\n${comments}\n  c: ${flow}\n`;
		expect(contents(text)).toEqual([
			{ value: { a: expect.stringContaining("x\n"), b: { c: Array(300).fill("x") } } },
		]);
	});

	it("refuses aliases that multiply", () => {
		const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"];
		for (let n = 1; n < 9; n += 1) {
			lines.push(`a${n}: &a${n} [${Array.from({ length: 9 }, () => `*a${n - 1}`).join(", ")}]`);
		}
		expect(contents(lines.join("\n"))).toEqual([
			{ fault: expect.stringContaining("Excessive alias count"), line: undefined },
		]);
	});

	it("refuses merge keys that multiply", () => {
		const lines = ["a0: &a0 {x: 1}"];
		for (let n = 1; n < 9; n += 1) {
			const aliases = Array.from({ length: 9 }, () => `*a${n - 1}`).join(", ");
			lines.push(`a${n}: &a${n} {<<: [${aliases}]}`);
		}
		expect(contents(lines.join("\n"))[0]).toHaveProperty("fault");
	});

	it("takes hundreds of aliases of one anchor, as emitters write them", () => {
		const text = `- &a {x: 1}\n${"- *a\n".repeat(900)}`;
		expect(contents(text)[0]).toHaveProperty("value");
	});

	it("bounds the documents of a file", () => {
		const all = contents("---\n".repeat(MAX_DOCUMENTS + 2));
		expect(all).toHaveLength(MAX_DOCUMENTS + 1);
		expect(all.at(-1)).toMatchObject({
			fault: expect.stringContaining(`wanted at most ${MAX_DOCUMENTS} documents`),
		});
	});

	it("bounds the size of YAML, and not that of JSON", () => {
		const pad = "x".repeat(MAX_YAML_CHARACTERS);
		expect(contents(`a: ${pad}`)[0]).toMatchObject({
			fault: expect.stringContaining("split it, or write it as JSON"),
		});
		expect(contents(JSON.stringify({ pad }))[0]).toHaveProperty("value");
		expect(contents(`{"${pad}`)[0]).toHaveProperty("fault");
	});

	it("stops often in a large text, so that others can work", () => {
		const text = `${"- a: 1\n".repeat(20_000)}`;
		expect([...readDocuments(text)].filter((each) => each === undefined).length).toBeGreaterThan(
			20,
		);
	});
});
