import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readManifestsOnce } from "../../../../src/sources/manifests/read-once.ts";
import { aFolder, aService } from "./source-kit.ts";

describe("readManifestsOnce()", () => {
	it("reads what is good and says of each path what is not", async () => {
		const folder = aFolder();
		const file = (name: string) => join(folder, name);
		writeFileSync(file("a.yaml"), aService("a"));
		writeFileSync(file("b.yaml"), `${aService("b")}---\n${aService("c", 0)}`);
		writeFileSync(file("c.yaml"), aService("a", 81));
		writeFileSync(file("d.yaml"), Buffer.from([0xff]));
		const { snapshot, problems } = await readManifestsOnce(
			[folder, file("a.yaml"), file("none")],
			"node1",
		);
		expect([...snapshot.services.keys()]).toEqual(["shop/a", "shop/b"]);
		expect(problems).toEqual([
			expect.stringContaining(`${file("b.yaml")}: document 2, line 13: Service shop/c: spec.ports`),
			`${file("d.yaml")}: is not UTF-8 text`,
			`${file("none")}: is not there`,
			`${file("c.yaml")}, document 1: Service shop/a is there already in ${file("a.yaml")}, document 1, which counts`,
		]);
	});
});
