import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test as it } from "vitest";
import { CONTENDERS } from "../../../scripts/bench/contenders.ts";
import { FIGURE_KEYS } from "../../../scripts/bench/figures.ts";
import { MEASUREMENTS } from "../../../scripts/bench/measurements.ts";

const PROGRAM = fileURLToPath(new URL("../../../scripts/bench.ts", import.meta.url));

function run(...args: readonly string[]) {
	const { stdout, stderr, status } = spawnSync(process.execPath, [PROGRAM, ...args], {
		encoding: "utf8",
		timeout: 20_000,
	});
	return { stdout, stderr, status };
}

describe("scripts/bench.ts", () => {
	it("explains itself", () => {
		const { stdout, status } = run("--help");
		expect(status).toBe(0);
		expect(stdout).toContain(
			"of bulk, bulk8, keepalive, keepalive256, new, lone, udp, udp1400, idle",
		);
	});

	it.each([
		[["--only", "tcp"], "bench: --only: wanted names of bulk, bulk8, keepalive, keepalive256"],
		[["--svg", "/no/such/folder/x.svg"], 'bench: --svg: cannot write "/no/such/folder/x.svg": '],
	])("ends with status 2 before anything is built: %j", (args, message) => {
		const outcome = run(...args);
		expect(outcome).toMatchObject({ stdout: "", status: 2 });
		expect(outcome.stderr).toContain(message);
	});
});

describe("docs/benchmarks.md", () => {
	it("explains every contender, measurement and figure", () => {
		const text = readFileSync(new URL("../../../docs/benchmarks.md", import.meta.url), "utf8");
		const names = [...CONTENDERS, ...MEASUREMENTS].map(({ name }) => name);
		const missing = [...names, ...FIGURE_KEYS].filter((name) => !text.includes(`\`${name}\``));
		expect(missing).toEqual([]);
	});
});
