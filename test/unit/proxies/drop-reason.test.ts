import { readFileSync } from "node:fs";
import { expect, test as it } from "vitest";
import { DROP_REASONS } from "../../../src/proxies/drop-reason.ts";

it("DROP_REASONS are all explained to operators", () => {
	const doc = readFileSync(new URL("../../../docs/observing.md", import.meta.url), "utf8");
	expect(DROP_REASONS.filter((reason) => !doc.includes(`\`${reason}\``))).toEqual([]);
});
