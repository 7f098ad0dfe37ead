import { expect, it } from "vitest";
import { planRules } from "../../../src/rules/plan.ts";
import { putBackText, removalText, restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";
import { FakeTables } from "../../kit/fake-xtables.ts";

const plan = planRules(wantedRules([aBinding()]), "ipv4");
const nothing = parseSavedRules("");

it("applying the same text again changes nothing, not even the number of rules (case 32a, classic 9.7.3)", () => {
	const tables = new FakeTables();
	tables.restore(restoreText(plan, parseSavedRules(tables.save())));
	const once = tables.save();

	for (let round = 0; round < 20; round += 1) {
		tables.restore(restoreText(plan, parseSavedRules(tables.save())));
	}

	expect(tables.save()).toBe(once);
});

it("removalText() takes away all that restoreText() makes", () => {
	const tables = new FakeTables();
	tables.chains("nat");
	tables.chains("filter");
	const before = tables.save();
	tables.restore(restoreText(plan, parseSavedRules(before)));

	tables.restore(removalText(parseSavedRules(tables.save())));

	expect(tables.save()).toBe(before);
	expect(removalText(parseSavedRules(tables.save()))).toBe("");
});

it("removalText() empties a chain that somebody else's rule leads to, and deletes the others", () => {
	const tables = new FakeTables();
	tables.restore(restoreText(plan, nothing));
	tables.chains("nat").get("POSTROUTING")?.push("-s 10.0.0.1/32 -j KUBE-PORTALS-HOST");

	tables.restore(removalText(parseSavedRules(tables.save())));

	expect([...tables.chains("nat").keys()].filter((chain) => chain.startsWith("KUBE"))).toEqual([
		"KUBE-PORTALS-HOST",
	]);
	expect(tables.chains("nat").get("KUBE-PORTALS-HOST")).toEqual([]);
	expect(tables.chains("nat").get("OUTPUT")).toEqual([]);
});

it("putBackText() makes a table as it was, where our chains were there", () => {
	const tables = new FakeTables();
	tables.restore(restoreText(plan, nothing));
	const before = tables.save();
	tables.restore(restoreText(planRules(wantedRules([]), "ipv4"), parseSavedRules(before)));
	expect(tables.save()).not.toBe(before);

	for (const table of ["filter", "nat"] as const) {
		tables.restore(putBackText(table, parseSavedRules(before), parseSavedRules(tables.save())));
	}

	expect(tables.save()).toBe(before);
});

it("putBackText() takes our chains away, where they were not there", () => {
	const tables = new FakeTables();
	tables.restore(restoreText(plan, nothing));

	tables.restore(putBackText("filter", nothing, parseSavedRules(tables.save())));

	expect(tables.chains("filter").has("KUBE-NODEPORT-NON-LOCAL")).toBe(false);
	expect(tables.chains("filter").get("INPUT")).toEqual([]);
});
