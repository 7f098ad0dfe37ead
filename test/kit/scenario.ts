import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseDocument } from "yaml";
import { findScenarioProblems } from "./scenario-problems.ts";
import { type ScenarioFile, scenarioFile } from "./scenario-schema.ts";

/** One file of test/scenarios/, read and checked. */
export interface Scenario extends ScenarioFile {
	/** The file's name without ".yaml": also the namespace of its objects. */
	readonly name: string;
}

const FOLDER = fileURLToPath(new URL("../scenarios/", import.meta.url));

/** @throws {Error} where the folder is empty, or holds what is no good scenario. */
export function readScenarios(folder = FOLDER): readonly Scenario[] {
	const files = readdirSync(folder).toSorted((a, b) => (a < b ? -1 : 1));
	if (files.length === 0) throw new Error(`Cannot read scenarios: ${folder} is empty`);
	return files.map((file) => parseScenario(file, readFileSync(join(folder, file), "utf8")));
}

/** Each with the title of its tests, which holds what it shows: so that one finds it by that, too. */
export function titledScenarios(): readonly (readonly [title: string, scenario: Scenario])[] {
	return readScenarios().map((scenario) => [
		`${scenario.name}: ${scenario.shows.trim()}`,
		scenario,
	]);
}

/** @throws {Error} with the file and the field of each fault. */
export function parseScenario(file: string, text: string): Scenario {
	if (!file.endsWith(".yaml")) throw new Error(`Cannot read scenario ${file}: wanted a .yaml file`);
	const document = parseDocument(text);
	const syntax = [...document.errors, ...document.warnings].map(({ message }) => message);
	if (syntax.length > 0) throw faulty(file, syntax);
	const parsed = scenarioFile.safeParse(document.toJS());
	if (!parsed.success) {
		throw faulty(
			file,
			parsed.error.issues.map(({ path, message }) => `${fieldText(path)}: ${message}`),
		);
	}
	const name = basename(file, ".yaml");
	const problems = findScenarioProblems(parsed.data, name);
	if (problems.length > 0) throw faulty(file, problems);
	return { ...parsed.data, name };
}

function faulty(file: string, problems: readonly string[]): Error {
	return new Error(`Cannot read scenario ${file}:\n  ${problems.join("\n  ")}`);
}

/** "steps[0].reach[1].expect". */
function fieldText(path: readonly PropertyKey[]): string {
	return path
		.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
		.join("")
		.replace(/^\./, "");
}
