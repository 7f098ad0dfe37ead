import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import {
	escapeControlCharactersInJson,
	showControlCharacters,
} from "../../../src/observe/control-characters.ts";

/** What must never reach a terminal from outside. */
const HARMFUL = /[\p{Cc}\p{Cf}\u2028\u2029]/u;

const anyText = fc.string({ unit: "binary" });

describe("showControlCharacters()", () => {
	it("shows escape sequences of either kind, line breaks and turned text", () => {
		expect(showControlCharacters("a\u001b[2J\u009b31m\r\n\u202eb\u{e0041}")).toBe(
			"a\\u001b[2J\\u009b31m\\u000d\\u000a\\u202eb\\udb40\\udc41",
		);
	});

	it("leaves nothing harmful in any text", () => {
		fc.assert(
			fc.property(anyText, (text) => {
				expect(showControlCharacters(text)).not.toMatch(HARMFUL);
			}),
		);
	});
});

describe("escapeControlCharactersInJson()", () => {
	it("changes the text of a document but not what it says", () => {
		fc.assert(
			fc.property(fc.dictionary(anyText, anyText), (document) => {
				const json = escapeControlCharactersInJson(JSON.stringify(document));
				expect(HARMFUL.test(json)).toBe(false);
				expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(document)));
			}),
		);
	});

	it("keeps the newline that ends a line", () => {
		expect(escapeControlCharactersInJson('{"a":"\u009b"}\n')).toBe('{"a":"\\u009b"}\n');
	});
});
