import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test as it } from "vitest";
import { loadConfig } from "../../../src/config/load.ts";
import { describeConfigProblem } from "../../../src/config/problem.ts";
import type { FlagTexts } from "../../../src/config/resolve.ts";
import { file } from "./inputs.ts";

let folder = "";

beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "load-config-"));
});

afterEach(() => {
	rmSync(folder, { recursive: true });
});

function problemsOf(flags: FlagTexts): readonly string[] {
	const result = loadConfig({ flags, env: {}, hostname: "node1" });
	return "problems" in result ? result.problems.map(describeConfigProblem) : [];
}

it("loadConfig() reads the file that --config names", () => {
	const path = join(folder, "proxy.yaml");
	writeFileSync(path, file("portRange: 7-8").text);
	const flags = { config: [path], manifests: ["/m"] };
	const result = loadConfig({ flags, env: {}, hostname: "node1" });
	expect(result).toMatchObject({ config: { proxyPortRange: { first: 7, last: 8 } } });
});

it("loadConfig() tells why a file cannot be read, and what else is wrong", () => {
	const path = join(folder, "none.yaml");
	expect(problemsOf({ config: [path], rules: ["x"] })).toEqual([
		expect.stringContaining(`--config: cannot read ${path}: ENOENT`),
		expect.stringContaining("--rules: wanted"),
	]);
});

it("loadConfig() refuses a folder, a device and a file that is far too large", () => {
	expect(problemsOf({ config: [folder] })).toEqual([
		`--config: cannot read ${folder}: it is no regular file`,
	]);
	expect(problemsOf({ config: ["/dev/zero"] })).toEqual([
		"--config: cannot read /dev/zero: it is no regular file",
	]);
	const large = join(folder, "large.yaml");
	writeFileSync(large, "");
	truncateSync(large, 262_145);
	expect(problemsOf({ config: [large] })).toEqual([
		`--config: cannot read ${large}: larger than 262144 bytes`,
	]);
});
