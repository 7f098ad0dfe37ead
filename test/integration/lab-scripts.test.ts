import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test as it } from "vitest";
import { labProblem } from "../kit/lab.ts";
import { exited } from "../kit/lab-command.ts";
import { namespaceNames } from "../kit/lab-sweep.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folders: string[] = [];
const aFolder = (): string => {
	const folder = mkdtempSync(join(tmpdir(), "kup-test-"));
	folders.push(folder);
	return folder;
};
afterEach(() => {
	for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

interface Outcome {
	readonly lastLine: string | undefined;
	readonly output: string;
	readonly status: number | null;
}

/** Runs scripts/test-summary.ts over results as vitest and scripts/test write them. */
function summary(run: {
	steps?: string;
	files?: readonly { name: string; status: string; tests: Record<string, string> }[];
	vitestStatus?: number;
	wanted?: string;
	ci?: string;
}): Outcome {
	const folder = aFolder();
	if (run.steps !== undefined) writeFileSync(join(folder, "steps"), run.steps);
	if (run.files !== undefined) {
		const testResults = run.files.map(({ name, status, tests }) => ({
			name,
			status,
			assertionResults: Object.entries(tests).map(([fullName, result]) => ({
				fullName,
				status: result,
			})),
		}));
		writeFileSync(join(folder, "vitest.json"), JSON.stringify({ testResults }));
	}
	const args = [folder, String(run.vitestStatus ?? 0), run.wanted ?? ""];
	const { stdout, status } = spawnSync(
		process.execPath,
		[join(root, "scripts/test-summary.ts"), ...args],
		{ encoding: "utf8", env: { ...process.env, CI: run.ci ?? "" } },
	);
	return { lastLine: stdout.trimEnd().split("\n").at(-1), output: stdout, status };
}

const passing = { name: "/a.test.ts", status: "passed", tests: { "a works": "passed" } };

describe("the counts of a test run", () => {
	it("add the steps to the tests", () => {
		const steps = "passed lint\npassed types\npassed build\n";
		expect(summary({ steps, files: [passing] })).toMatchObject({
			lastLine: "4 passed, 0 failed, 0 skipped",
			status: 0,
		});
	});

	it("fail for a failing step though every test passed", () => {
		expect(summary({ steps: "failed lint\n", files: [passing] })).toMatchObject({
			lastLine: "1 passed, 1 failed, 0 skipped",
			status: 1,
		});
	});

	it("list what failed", () => {
		const failing = { name: "/b.test.ts", status: "failed", tests: { "b breaks": "failed" } };
		const { lastLine, output, status } = summary({ files: [passing, failing], vitestStatus: 1 });
		expect({ lastLine, status }).toEqual({ lastLine: "1 passed, 1 failed, 0 skipped", status: 1 });
		expect(output).toContain("b breaks");
	});

	it("count a file that could not be loaded, and an error outside every test", () => {
		const unloadable = { name: "/b.test.ts", status: "failed", tests: {} };
		expect(summary({ files: [passing, unloadable], vitestStatus: 1 }).lastLine).toBe(
			"1 passed, 1 failed, 0 skipped",
		);
		expect(summary({ files: [passing], vitestStatus: 1 })).toMatchObject({
			lastLine: "1 passed, 1 failed, 0 skipped",
			status: 1,
		});
	});

	it("fail when the runner left no results, or no test was run", () => {
		expect(summary({ vitestStatus: 124 })).toMatchObject({
			lastLine: "0 passed, 1 failed, 0 skipped",
			status: 1,
		});
		expect(summary({ files: [] })).toMatchObject({ status: 1 });
	});

	it("let a skipped test pass, but not in CI", () => {
		const files = [
			{ name: "/a.test.ts", status: "passed", tests: { "a works": "passed", "a lab": "skipped" } },
		];
		const lastLine = "1 passed, 0 failed, 1 skipped";
		expect(summary({ files })).toMatchObject({ lastLine, status: 0 });
		expect(summary({ files, ci: "true" })).toMatchObject({ lastLine, status: 1 });
	});

	it("leave out what a narrowed run left out", () => {
		const tests = { "a works": "passed", "b works": "skipped", "a lab": "skipped" };
		const files = [{ name: "/x.test.ts", status: "passed", tests }];
		expect(summary({ files, wanted: "a " }).lastLine).toBe("1 passed, 0 failed, 1 skipped");
	});
});

describe.skipIf(labProblem() !== undefined)("the demo", () => {
	const demoNamespaces = (pid: number | undefined) =>
		namespaceNames().filter((name) => name.startsWith(`kup-${pid}-`));

	/** The demo without the set-up, which has been done for this very test. */
	const startDemo = (program?: string) =>
		spawn(process.execPath, [join(root, "scripts/demo.ts")], {
			stdio: ["ignore", "pipe", "inherit"],
			env: {
				...process.env,
				...(program === undefined ? {} : { KUP_TEST_PROGRAM: program }),
			},
		});

	const ended = async (child: ReturnType<typeof startDemo>): Promise<string> => {
		let output = "";
		child.stdout.on("data", (chunk: Buffer) => {
			output += chunk.toString();
		});
		await exited(child);
		return output;
	};

	it("holds every claim and leaves nothing behind", async () => {
		const demo = startDemo();
		const output = await ended(demo);
		expect(output).toMatch(/All \d+ claims held/);
		expect(demo.exitCode).toBe(0);
		expect(demoNamespaces(demo.pid)).toEqual([]);
	});

	it("ends with status 1 when the daemon does not do its job, and leaves nothing behind", async () => {
		const folder = aFolder();
		// Ready, serves nothing.
		const idle = join(folder, "idle.mjs");
		writeFileSync(idle, 'console.log(\'{"msg":"ready"}\'); setInterval(() => {}, 1000);');
		const demo = startDemo(idle);
		const output = await ended(demo);
		expect(output).toMatch(/✗/);
		expect(demo.exitCode).toBe(1);
		expect(demoNamespaces(demo.pid)).toEqual([]);
	});

	it("leaves nothing behind when it is interrupted", async () => {
		const demo = startDemo();
		const output = ended(demo);
		await expect.poll(() => demoNamespaces(demo.pid).length, { timeout: 20_000 }).toBe(6);
		demo.kill("SIGINT");
		await output;
		expect(demo.signalCode).toBe("SIGINT");
		expect(demoNamespaces(demo.pid)).toEqual([]);
	});
});
