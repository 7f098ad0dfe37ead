import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readScenarios } from "./scenario.ts";

/** The title of a test, of a group of tests, or of a scenario. */
export interface TestTitle {
	/** Below test/. */
	readonly file: string;
	/** As it is written: with the `%s` and `$name` of tests that are made from a table. */
	readonly title: string;
}

const FOLDER = fileURLToPath(new URL("../", import.meta.url));

/** Files that hold tests: the two projects' and the suites that they run. */
const TEST_FILE = /^(?:unit|integration)\/.*\.test\.ts$|^conformance\/.*\.ts$/;

/** A call whose first argument is a text and not the last one: `it("…", …`, `describe.each(…)("…", …`. */
const CALL = /\(\s*(["`])((?:\\.|(?!\1)[^\\])*)\1,/g;

/** A word for a list of behaviours and a number in it: "classic 9.1.3"; "9.1.3" alone is of the list named before it. */
const ITEM = /^(?:([a-z]+) )?(\d[\w.]*)$/;

/** All titles in test/, without running a test. */
export function readTestTitles(): readonly TestTitle[] {
	const files = readdirSync(FOLDER, { recursive: true, encoding: "utf8" });
	const ofTests = files
		.filter((file) => TEST_FILE.test(file))
		.flatMap((file) =>
			[...readFileSync(`${FOLDER}${file}`, "utf8").matchAll(CALL)].map(([, , title = ""]) => ({
				file,
				title,
			})),
		);
	const ofScenarios = readScenarios().map(({ name, shows }) => ({
		file: `scenarios/${name}.yaml`,
		title: shows.trim(),
	}));
	return [...ofTests, ...ofScenarios];
}

/** The numbers of one list that a title names at its end: "… (case 1, classic 9.1.3, 9.8.2)". */
export function numbersInTitle(title: string, list: string): readonly string[] {
	const [, inside] = /\(([^()]*)\)$/.exec(title) ?? [];
	let current: string | undefined;
	return (inside?.split(", ") ?? []).flatMap((item) => {
		const [, word, number = ""] = ITEM.exec(item) ?? [];
		current = word ?? current;
		return current === list && number !== "" ? [number] : [];
	});
}
