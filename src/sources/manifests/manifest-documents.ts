import { Composer, type Document, isCollection, isNode, isScalar, LineCounter, visit } from "yaml";
import { describeError } from "../../shared/errors.ts";
import { NestedTooDeeplyError, readTokens } from "./yaml-tokens.ts";

/** Documents in one file; further ones are left out and that is a fault of the file. */
export const MAX_DOCUMENTS = 10_000;

/**
 * The YAML parser needs up to 1 s and 100 MB for each MiB (measured), a fifth of it in one piece;
 * JSON, which is read natively, may be as large as a file may.
 */
export const MAX_YAML_CHARACTERS = 8 * 1_024 * 1_024;

/** Aliases, counted with those inside of what they stand for: some emitters write hundreds. */
const MAX_ALIASES = 1_000;

/** JSON has no positions; so much of it is parsed once more to find the line of a fault. */
const MAX_JSON_TO_LOCATE = 256 * 1_024;

/** "spec", "ports", 0: the way to a field from the root of a document. */
export type FieldPath = readonly (string | number)[];

export interface ManifestDocument {
	/** 1-based, empty documents counted. */
	readonly number: number;
	readonly content:
		| { readonly value: unknown }
		| { readonly fault: string; readonly line: number | undefined };
	/** The 1-based line of the field, or of the nearest one around it; undefined where not known. */
	lineOf(path: FieldPath): number | undefined;
}

/**
 * The documents of a YAML or JSON text, one at a time, each with its value or the reason why it has
 * none; an `undefined` in between is a moment to let others work. Never throws; a text that cannot be
 * read on ends with a faulty document.
 */
export function* readDocuments(
	text: string,
): Generator<ManifestDocument | undefined, void, undefined> {
	const json = readJson(text);
	if (json !== undefined) {
		yield json;
		return;
	}
	if (text.length > MAX_YAML_CHARACTERS) {
		yield faulty(
			1,
			`wanted at most ${MAX_YAML_CHARACTERS} characters of YAML, got ${text.length}: split it, or write it as JSON`,
		);
		return;
	}
	yield* readYaml(text);
}

/** @returns undefined for what is no JSON: it may be YAML, which nearly includes JSON. */
function readJson(text: string): ManifestDocument | undefined {
	if (!/^\s*[{[]/.test(text)) return undefined;
	try {
		const value: unknown = JSON.parse(text);
		return { number: 1, content: { value }, lineOf: linesOfJson(text) };
	} catch (error) {
		return text.length > MAX_YAML_CHARACTERS ? faulty(1, describeError(error)) : undefined;
	}
}

/** Parses once, when the first line is asked for: hardly any file needs it. */
function linesOfJson(text: string): ManifestDocument["lineOf"] {
	if (text.length > MAX_JSON_TO_LOCATE) return () => undefined;
	let document: ManifestDocument | undefined;
	return (path) => {
		document ??= readYaml(text).find((each) => each !== undefined);
		return document?.lineOf(path);
	};
}

function* readYaml(text: string): Generator<ManifestDocument | undefined, void, undefined> {
	const lines = new LineCounter();
	let number = 0;
	try {
		for (const document of composeDocuments(text, lines)) {
			if (document !== undefined) number += 1;
			if (number > MAX_DOCUMENTS) {
				yield faulty(number, `wanted at most ${MAX_DOCUMENTS} documents in one file, got more`);
				return;
			}
			yield document === undefined ? undefined : toDocument(number, document, lines);
		}
	} catch (error) {
		const line = error instanceof NestedTooDeeplyError ? error.line : undefined;
		yield faulty(number + 1, unreadable(error), line);
	}
}

function* composeDocuments(
	text: string,
	lines: LineCounter,
): Generator<Document.Parsed | undefined, void, undefined> {
	// Its own check for equal keys takes the square of their number; ours does not.
	const options = {
		prettyErrors: false,
		uniqueKeys: false,
		merge: true,
		logLevel: "silent",
	} as const;
	const composer = new Composer(options);
	try {
		for (const token of readTokens(text, lines)) {
			if (token === undefined) yield undefined;
			else yield* composer.next(token);
		}
	} catch (error) {
		// It holds each document back until the next one is there, and that one cannot be read.
		yield* composer.end();
		throw error;
	}
	yield* composer.end();
}

function toDocument(
	number: number,
	document: Document.Parsed,
	lines: LineCounter,
): ManifestDocument {
	const lineAt = (offset: number | undefined) =>
		offset === undefined ? undefined : lines.linePos(offset).line;
	const [syntax] = document.errors;
	if (syntax !== undefined) {
		return faulty(number, syntax.message, lineAt(syntax.pos[0]));
	}
	try {
		const twice = findKeyTwice(document);
		if (twice !== undefined) {
			return faulty(
				number,
				`the key ${JSON.stringify(twice.key)} is there twice`,
				lineAt(twice.offset),
			);
		}
		const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
		return { number, content: { value }, lineOf: (path) => lineAt(offsetOf(document, path)) };
	} catch (error) {
		return faulty(number, unreadable(error));
	}
}

function faulty(number: number, fault: string, line?: number): ManifestDocument {
	return { number, content: { fault, line }, lineOf: () => line };
}

/** The parser recurses, so that its stack ends before the text does. */
function unreadable(error: unknown): string {
	if (error instanceof NestedTooDeeplyError) return error.message;
	return error instanceof RangeError ? "is nested too deeply" : describeError(error);
}

function findKeyTwice(
	document: Document.Parsed,
): { key: string; offset: number | undefined } | undefined {
	let found: { key: string; offset: number | undefined } | undefined;
	visit(document, {
		Map(_key, map) {
			const keys = new Set<unknown>();
			for (const { key } of map.items) {
				if (!isScalar(key) || key.value === "<<") continue;
				if (keys.has(key.value)) {
					found = { key: String(key.value).slice(0, 60), offset: key.range?.[0] };
					return visit.BREAK;
				}
				keys.add(key.value);
			}
			return undefined;
		},
	});
	return found;
}

/** Where the field begins in the text, or the nearest one around it that is there. */
function offsetOf(document: Document.Parsed, path: FieldPath): number | undefined {
	let node: unknown = document.contents;
	let offset: number | undefined;
	for (const step of [undefined, ...path]) {
		if (step !== undefined) node = isCollection(node) ? node.get(step, true) : undefined;
		if (!isNode(node)) return offset;
		offset = node.range?.[0] ?? offset;
	}
	return offset;
}
