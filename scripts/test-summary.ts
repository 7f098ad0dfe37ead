/**
 * Counts a test run: `node scripts/test-summary.ts FOLDER VITEST_STATUS [NAME]`. The folder holds `steps`,
 * lines "passed lint", and vitest.json; NAME is what the run was narrowed to. Ends with the one line "N passed, N failed, N skipped", status 1 when
 * something failed, or, in CI, was left out.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface VitestResults {
	readonly testResults: readonly TestFile[];
}

interface TestFile {
	/** The file's path. */
	readonly name: string;
	readonly status: string;
	readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
}

const [folder = ".", vitestStatus = "1", wanted = ""] = process.argv.slice(2);
const counted = { passed: [] as string[], failed: [] as string[], skipped: [] as string[] };

countSteps();
countTests();
report();

function countSteps(): void {
	const path = join(folder, "steps");
	if (!existsSync(path)) return;
	for (const line of readFileSync(path, "utf8").split("\n").filter(Boolean)) {
		const [outcome, name = ""] = line.split(" ");
		(outcome === "passed" ? counted.passed : counted.failed).push(name);
	}
}

function countTests(): void {
	const path = join(folder, "vitest.json");
	if (!existsSync(path)) {
		counted.failed.push("the test runner: it left no results");
		return;
	}
	const { testResults } = JSON.parse(readFileSync(path, "utf8")) as VitestResults;
	const failedSteps = counted.failed.length;
	for (const file of testResults) countFile(file);
	const { passed, failed, skipped } = counted;
	if (passed.length + failed.length + skipped.length === 0) {
		failed.push(`the test runner: no test holds "${wanted}" in its path or name`);
	}
	// An error outside every test: vitest says so by its status alone.
	if (vitestStatus !== "0" && failed.length === failedSteps) {
		failed.push(`the test runner: status ${vitestStatus}, see above`);
	}
}

function countFile({ name, status, assertionResults }: TestFile): void {
	// vitest calls those skipped, too, that the run was narrowed to leave out.
	const tests = assertionResults.filter(
		({ fullName }) => name.includes(wanted) || fullName.includes(wanted),
	);
	for (const test of tests) listFor(test.status).push(test.fullName);
	const told = tests.some((test) => test.status === "failed");
	if (status === "failed" && !told) counted.failed.push(`${name}: could not be run`);
}

function listFor(status: string): string[] {
	if (status === "passed") return counted.passed;
	return status === "failed" ? counted.failed : counted.skipped;
}

function report(): void {
	const { passed, failed, skipped } = counted;
	const list = (title: string, names: readonly string[]) => {
		if (names.length > 0) console.log(`\n${title}:\n${names.map((n) => `  ${n}`).join("\n")}`);
	};
	list("Failed", failed);
	list("Skipped", skipped);
	const { CI = "" } = process.env;
	const incomplete = CI !== "" && CI !== "false" && skipped.length > 0;
	if (incomplete) console.log("\nIn CI nothing may be missing: a skipped test fails the run.");
	process.exitCode = failed.length > 0 || incomplete ? 1 : 0;
	console.log(`\n${passed.length} passed, ${failed.length} failed, ${skipped.length} skipped`);
}
