import { describe, expect, test as it } from "vitest";
import { matchesFilter } from "../../../src/observe/connection-filter.ts";

const any = { service: undefined, client: undefined };

describe("matchesFilter()", () => {
	it("lets everything through when nothing is asked for", () => {
		expect(matchesFilter({ service: "shop/cart", client: undefined }, any)).toBe(true);
	});

	it.each([
		["shop/cart", "shop/cart:http", true],
		["shop/cart", "shop/cart", true],
		["shop/cart:http", "shop/cart:http", true],
		["shop/cart:http", "shop/cart:https", false],
		["shop/cart", "shop/cart2:http", false],
	])("asked for %s, %s: %s", (wanted, service, matches) => {
		expect(matchesFilter({ service, client: undefined }, { ...any, service: wanted })).toBe(
			matches,
		);
	});

	it.each([
		["10.1.0.2", "10.1.0.2:41234", true],
		["10.1.0.2", "10.1.0.22:41234", false],
		["fd10::2", "[fd10::2]:41234", true],
		["10.1.0.2", undefined, false],
	])("asked for client %s, %s: %s", (wanted, client, matches) => {
		expect(matchesFilter({ service: "a/b", client }, { ...any, client: wanted })).toBe(matches);
	});
});
