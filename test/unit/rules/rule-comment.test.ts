import fc from "fast-check";
import { expect, test as it } from "vitest";
import { ruleComment } from "../../../src/rules/rule-comment.ts";

it("ruleComment() is the key where that is harmless", () => {
	expect(ruleComment("shop/cart:http/tcp/ipv4")).toBe("shop/cart:http/tcp/ipv4");
});

it.each([
	['a"b', "a?b"],
	["a\nb", "a?b"],
	["a\r\\'b", "a???b"],
	["a b", "a?b"],
	["é", "?"],
])("ruleComment() of %j has nothing that could end it", (key, comment) => {
	expect(ruleComment(key)).toBe(comment);
});

it("ruleComment() cuts at 255 characters, always in the same way and never two alike (case 32c)", () => {
	const long = "x".repeat(300);

	expect(ruleComment(long)).toHaveLength(255);
	expect(ruleComment(long)).toBe(ruleComment(long));
	expect(ruleComment(`${long}a`)).not.toBe(ruleComment(`${long}b`));
	expect(ruleComment("x".repeat(255))).toBe("x".repeat(255));
});

it("ruleComment() is safe for any text", () => {
	fc.assert(
		fc.property(fc.string({ unit: "binary", maxLength: 600 }), (text) => {
			expect(ruleComment(text)).toMatch(/^[A-Za-z0-9._:/?~-]{0,255}$/);
		}),
	);
});
