import { expect, it } from "vitest";
import { createNoRules } from "../../../src/rules/no-rules.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";

it("createNoRules() keeps nothing and runs nothing", async () => {
	const keeper = createNoRules();
	const { signal } = new AbortController();

	expect(await keeper.apply(wantedRules([aBinding()]), signal)).toEqual({ families: [] });
	expect(await keeper.verify(signal)).toEqual({ families: [] });
	expect(await keeper.captureOff(signal)).toEqual({ families: [] });
	expect(await keeper.remove(signal)).toEqual({ families: [] });
	expect(await keeper.previous(signal)).toEqual([]);
	expect(keeper.inForce().size).toBe(0);
	expect(keeper.facts().variant).toBe("none");
});
