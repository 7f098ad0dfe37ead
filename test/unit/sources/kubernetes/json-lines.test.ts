import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { JsonLines } from "../../../../src/sources/kubernetes/json-lines.ts";

function readAll(chunks: readonly Uint8Array[], maxBytes = 1_000): unknown[] {
	const lines = new JsonLines(maxBytes);
	return chunks.flatMap((chunk) => [...lines.push(chunk)]);
}

describe("JsonLines", () => {
	it("gives the same values however the bytes are cut", () => {
		fc.assert(
			fc.property(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 9 }), (values, size) => {
				const bytes = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(""));
				const chunks = [];
				for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
				expect(JSON.stringify(readAll(chunks, 1_000_000))).toBe(JSON.stringify(values));
			}),
		);
	});

	it("gives no line that has not ended, and skips empty ones", () => {
		expect(readAll([Buffer.from('\n1\n \r\n{"a":')])).toEqual([1]);
	});

	it("gives the lines before a bad one", () => {
		const values: unknown[] = [];
		expect(() => {
			for (const value of new JsonLines(100).push(Buffer.from("1\nx\n2\n"))) values.push(value);
		}).toThrow(SyntaxError);
		expect(values).toEqual([1]);
	});

	it("refuses a line above its bound, whole or in parts", () => {
		expect(() => readAll([Buffer.from(`"${"x".repeat(20)}"\n`)], 10)).toThrow(RangeError);
		expect(() =>
			readAll(
				Array.from({ length: 11 }, () => Buffer.from("x")),
				10,
			),
		).toThrow(RangeError);
		expect(readAll([Buffer.from('"12345678"\n')], 10)).toEqual(["12345678"]);
	});
});
