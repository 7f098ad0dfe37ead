import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { stringify } from "yaml";
import { combineFiles } from "../../../../src/sources/manifests/combine-files.ts";
import { nextFileState } from "../../../../src/sources/manifests/file-state.ts";
import {
	type ParsedManifest,
	parseManifest,
} from "../../../../src/sources/manifests/parse-manifest.ts";
import {
	arbitraryEndpoints,
	arbitraryJson,
	arbitraryNode,
	arbitraryService,
	arbitrarySlice,
	mutated,
} from "../../../kit/arbitrary-objects.ts";
import { aService } from "./source-kit.ts";

const good: fc.Arbitrary<object> = fc.oneof(
	arbitraryService,
	arbitrarySlice,
	arbitraryEndpoints,
	arbitraryNode,
);
const spoilt = fc.oneof(
	mutated(good).map(({ raw }) => raw),
	arbitraryJson,
);
const goodObjects = fc.array(good, { maxLength: 3 });

const parse = (text: string) => parseManifest(text, "node1");

/** The ways in which tools write several objects into one file. */
const FORMS = {
	"JSON List": (objects) =>
		JSON.stringify({ apiVersion: "v1", kind: "List", items: objects.map((raw) => raw ?? null) }),
	"JSON documents": (objects) =>
		objects.map((raw) => `---\n${JSON.stringify(raw ?? null)}\n`).join(""),
	"YAML documents": (objects) => objects.map((raw) => `---\n${yaml(raw)}`).join(""),
} satisfies Record<string, (objects: readonly unknown[]) => string>;

type Form = keyof typeof FORMS;
/** Mostly what is read natively: the YAML parser takes twenty times as long. */
const form = fc.oneof(
	{ weight: 9, arbitrary: fc.constant<Form>("JSON List") },
	fc.constant<Form>("JSON documents"),
);

describe("parseManifest() of any manifest", () => {
	it("gives of good objects the same however they are written", () => {
		fc.assert(
			fc.property(goodObjects, (objects) => {
				const [first, ...others] = Object.values(FORMS).map((write) => parse(write(objects)));
				expect(first?.problems).toEqual([]);
				for (const other of others) expect(valuesOf(other)).toEqual(valuesOf(first));
			}),
			{ numRuns: 500 },
		);
	});

	it("loses no good object for a spoilt one among them", () => {
		fc.assert(
			fc.property(form, goodObjects, spoilt, fc.nat(), (written, objects, bad, at) => {
				const place = at % (objects.length + 1);
				const all = [...objects.slice(0, place), bad, ...objects.slice(place)];
				const parsed = parse(FORMS[written](all));
				const [before, alone, after] = [objects.slice(0, place), [bad], objects.slice(place)].map(
					(some) => parse(FORMS["JSON List"](some)),
				);
				expect(valuesOf(parsed)).toEqual([before, alone, after].flatMap(valuesOf));
				// An empty document is none; an empty item of a list is a mistake.
				const isNothing = written === "JSON documents" && (bad ?? null) === null;
				expect(parsed.problems.map(({ object }) => object)).toEqual(
					isNothing ? [] : alone?.problems.map(({ object }) => object),
				);
			}),
			{ numRuns: 2_500 },
		);
	});

	it("never throws, whatever the text is, and stays within its bounds", () => {
		const text = fc.oneof(
			fc.string({ unit: "binary", maxLength: 200 }),
			fc.array(fc.constantFrom(...TOKENS), { maxLength: 60 }).map((tokens) => tokens.join("")),
			mistyped(`${aService("a")}---\n${aService("b")}`),
		);
		fc.assert(
			fc.property(text, (written) => {
				const { objects, problems } = parse(written);
				expect(problems.every(({ faults }) => faults.length > 0)).toBe(true);
				const lines = written.split(/\r\n|\r|\n/).length;
				const told = problems.flatMap(({ faults }) => faults.map(({ line }) => line ?? 1));
				expect(told.filter((line) => line < 1 || line > lines)).toEqual([]);
				expect(combineFiles([{ path: "/a", objects }]).snapshot.services.size).toBeLessThan(100);
			}),
			{ numRuns: 10_000 },
		);
	});
});

describe("nextFileState() after any versions of a file", () => {
	it("holds what a fresh start would read of the last good one, once one was good", () => {
		const version = fc.array(fc.oneof({ weight: 4, arbitrary: good }, spoilt), { maxLength: 3 });
		fc.assert(
			fc.property(goodObjects, fc.array(version, { maxLength: 5 }), (first, others) => {
				const parsed = [first, ...others].map((objects) => parse(FORMS["JSON List"](objects)));
				let state: ReturnType<typeof nextFileState> | undefined;
				for (const each of parsed) state = nextFileState(state, each);
				const counting = parsed.findLast(({ problems }) => problems.length === 0);
				expect(valuesOf(state)).toEqual(valuesOf(counting));
				expect(state?.problems).toEqual(parsed.at(-1)?.problems);
			}),
			{ numRuns: 3_000 },
		);
	});
});

/** What YAML is made of. */
const TOKENS = [
	...Array.from("[]{}:,-?&*!|>'\"%@`#~ \t\n"),
	"\n  ",
	"\n- ",
	"---\n",
	"...\n",
	": ",
	"&a ",
	"*a",
	"<<: ",
	"!!set ",
	"!!binary ",
	"!!omap ",
	"%YAML 1.1\n---\n",
	"apiVersion: v1\n",
	"kind: Service\n",
	"kind: List\nitems:\n",
	"metadata: {name: a}\n",
	"spec:\n",
	"2001-01-01",
	"0x1F",
	".nan",
	"\uFEFF",
	"\r\n",
	"\u2028",
	"__proto__: ",
];

/** A text with some of its characters taken out, put twice or replaced. */
function mistyped(text: string): fc.Arbitrary<string> {
	const mistake = fc.tuple(
		fc.nat({ max: text.length }),
		fc.nat({ max: 3 }),
		fc.constantFrom("", ...TOKENS),
	);
	return fc
		.array(mistake, { minLength: 1, maxLength: 4 })
		.map((mistakes) =>
			mistakes.reduce(
				(typed, [at, length, instead]) => typed.slice(0, at) + instead + typed.slice(at + length),
				text,
			),
		);
}

function valuesOf(parsed: Pick<ParsedManifest, "objects"> | undefined): readonly unknown[] {
	return (parsed?.objects ?? []).map(({ kind, key, value }) => ({ kind, key, value }));
}

function yaml(raw: unknown): string {
	return stringify(JSON.parse(JSON.stringify(raw)));
}
