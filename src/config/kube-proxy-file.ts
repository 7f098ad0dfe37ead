import { type Document, isScalar, parseAllDocuments } from "yaml";
import type { z } from "zod";
import { describeError } from "../shared/errors.ts";
import type { FlagName } from "./flags.ts";
import {
	asksForNothing,
	type FieldRule,
	isBlank,
	KUBE_PROXY_FIELDS,
	kubeProxySchema,
} from "./kube-proxy-fields.ts";
import { nearest } from "./nearest.ts";
import { type ConfigProblem, show, wanted } from "./problem.ts";

const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";
const KIND = "KubeProxyConfiguration";

const MODES = ["", "userspace", "iptables", "ipvs", "nftables"] as const;

/** A file may be wrong in any number of places; nobody reads more. */
const MAX_TOLD = 20;

/** A field of the file that means the same as a flag. */
export interface FileValue {
	/** "/etc/x.yaml: iptables.syncPeriod". */
	readonly where: string;
	readonly text: string;
}

export type FileReading =
	| {
			readonly values: ReadonlyMap<FlagName, FileValue>;
			/** What is not used, one line each; the fields without effect share one line. */
			readonly warnings: readonly string[];
	  }
	| { readonly problems: readonly ConfigProblem[] };

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a KubeProxyConfiguration, YAML or JSON: strict about types, lenient about unknown fields, as
 * kube-proxy is. Whether a value makes sense is left to the parser of the flag that it stands for.
 *
 * Never throws, whatever the text.
 *
 * @param path for messages only.
 */
export function readKubeProxyFile(path: string, text: string): FileReading {
	const parsed = parseYaml(path, text);
	if ("problems" in parsed) return parsed;
	const misplaced = checkKind(path, parsed.fields);
	if (misplaced !== undefined) return { problems: [misplaced] };
	const { unknownFields, problems } = checkTypes(path, parsed.fields);
	const mode = typeof parsed.fields["mode"] === "string" ? parsed.fields["mode"] : "";
	if (!MODES.some((known) => known === mode)) {
		problems.push(wanted(`${path}: mode`, `one of ${MODES.slice(1).join(", ")} or nothing`, mode));
	}
	if (problems.length > 0) return { problems };
	const { values, ignored } = collect(path, parsed.fields, mode);
	return {
		values,
		warnings: [
			...parsed.duplicates,
			...unknownFields,
			...ignoredLine(path, ignored),
			...modeLine(path, mode),
		],
	};
}

function parseYaml(
	path: string,
	text: string,
):
	| { readonly fields: Fields; readonly duplicates: readonly string[] }
	| { readonly problems: readonly ConfigProblem[] } {
	try {
		const documents = parseAllDocuments(text, { logLevel: "error" });
		const filled = [...documents].filter(({ contents }) => contents !== null && !isNull(contents));
		const [document] = filled;
		if (document === undefined) return { problems: [emptyFile(path)] };
		const broken = [...documents].flatMap((each) => syntaxProblems(path, each));
		if (broken.length > 0) return { problems: broken.slice(0, MAX_TOLD) };
		if (filled.length > 1) {
			return { problems: [wanted(path, `one ${KIND}`, undefined, `${filled.length} documents`)] };
		}
		const value: unknown = document.toJS({ maxAliasCount: 100 });
		if (typeof value !== "object" || value === null || Array.isArray(value)) {
			return { problems: [wanted(path, `a ${KIND}`, value)] };
		}
		return { fields: { ...value }, duplicates: duplicateLines(path, document) };
	} catch (error) {
		// Too many aliases, or nested deeper than the stack: no configuration is.
		return { problems: [{ where: path, message: `cannot be read: ${describeError(error)}` }] };
	}
}

function isNull(contents: unknown): boolean {
	return isScalar(contents) && contents.value === null;
}

function emptyFile(path: string): ConfigProblem {
	return wanted(path, `a ${KIND}`, undefined, "an empty file");
}

function syntaxProblems(path: string, document: Document): readonly ConfigProblem[] {
	return document.errors
		.filter(({ code }) => code !== "DUPLICATE_KEY")
		.map(({ message, linePos }) => ({
			where: linePos === undefined ? path : `${path}:${linePos[0].line}`,
			message: `no YAML: ${(message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "")}`,
		}));
}

/** kube-proxy warns of a key that is there twice and takes the last; so does the YAML parser. */
function duplicateLines(path: string, document: Document): readonly string[] {
	return document.errors
		.slice(0, MAX_TOLD)
		.map(
			({ linePos }) => `${path}:${linePos?.[0].line ?? "?"}: a field twice; the last one counts`,
		);
}

function checkKind(path: string, fields: Fields): ConfigProblem | undefined {
	const { apiVersion, kind } = fields;
	if (kind === "ConfigMap") {
		const message = `is a ConfigMap; give what it holds under data (in kubeadm's: "config.conf") as a file of its own`;
		return { where: path, message };
	}
	if (kind !== KIND) return wanted(`${path}: kind`, KIND, kind);
	return apiVersion === API_VERSION
		? undefined
		: wanted(`${path}: apiVersion`, API_VERSION, apiVersion);
}

function checkTypes(
	path: string,
	fields: Fields,
): {
	readonly unknownFields: readonly string[];
	readonly problems: ConfigProblem[];
} {
	const unknownFields: string[] = [];
	const problems: ConfigProblem[] = [];
	for (const issue of kubeProxySchema.safeParse(fields).error?.issues ?? []) {
		if (issue.code === "unrecognized_keys") {
			for (const key of issue.keys) unknownFields.push([...issue.path, key].map(String).join("."));
		} else problems.push(typeProblem(path, issue, fields));
	}
	return {
		unknownFields: unknownLines(path, unknownFields),
		problems: problems.slice(0, MAX_TOLD),
	};
}

function unknownLines(path: string, names: readonly string[]): readonly string[] {
	const lines = names.slice(0, MAX_TOLD).map((name) => {
		const guess = nearest(name, Object.keys(KUBE_PROXY_FIELDS));
		const hint = guess === undefined ? "" : `; did you mean ${guess}?`;
		return `${path}: unknown field ${show(name)} is not used${hint}`;
	});
	const rest = names.length - lines.length;
	return rest === 0 ? lines : [...lines, `${path}: ${rest} more unknown fields are not used`];
}

function typeProblem(path: string, issue: z.core.$ZodIssue, fields: Fields): ConfigProblem {
	const where = `${path}: ${issue.path.map(String).join(".")}`;
	const got = issue.path.reduce<unknown>((value, key) => memberOf(value, key), fields);
	return wanted(where, wantedBy(issue), got);
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
	string: "text",
	boolean: "true or false",
	number: "a number",
	int: "an integer",
	array: "a list",
	object: "a mapping",
	record: "a mapping",
};

function wantedBy(issue: z.core.$ZodIssue): string {
	if (issue.code === "invalid_type") return TYPE_WORDS[issue.expected] ?? issue.expected;
	if (issue.code === "invalid_union") return "a number or a duration such as 5s";
	return issue.code === "custom" ? issue.message : "another value";
}

function memberOf(value: unknown, key: PropertyKey): unknown {
	return typeof value === "object" && value !== null && Object.hasOwn(value, key)
		? (value as Readonly<Record<PropertyKey, unknown>>)[key]
		: undefined;
}

function collect(
	path: string,
	fields: Fields,
	mode: string,
): {
	readonly values: ReadonlyMap<FlagName, FileValue>;
	readonly ignored: readonly string[];
} {
	const values = new Map<FlagName, FileValue>();
	const ignored: string[] = [];
	for (const [name, rule] of Object.entries(KUBE_PROXY_FIELDS)) {
		const value = name.split(".").reduce<unknown>((outer, key) => memberOf(outer, key), fields);
		if (value === undefined || value === null || value === "") continue;
		const meaning = meaningOf(rule, value, mode);
		if (meaning === "ignored") ignored.push(name);
		else if (meaning !== undefined) {
			values.set(meaning.flag, { where: `${path}: ${name}`, text: meaning.text });
		}
	}
	return { values, ignored };
}

type Meaning = { readonly flag: FlagName; readonly text: string } | "ignored" | undefined;

/** @returns undefined where the value asks for nothing that is not so anyway. */
function meaningOf(rule: FieldRule, value: unknown, mode: string): Meaning {
	switch (rule.use) {
		case "kind":
		case "mode":
			return undefined;
		case "ignored":
			return asksForNothing(rule, value) ? undefined : "ignored";
		case "logFormat":
			// "text" is klog's own format and kube-proxy's default: it asks for nothing in particular.
			if (value === "json") return { flag: "log-format", text: "json" };
			return value === "text" ? undefined : "ignored";
		case "flag":
			return isReadIn(rule, mode) ? flagMeaning(rule, value) : meaningUnread(rule, value);
	}
}

type FlagRule = Extract<FieldRule, { use: "flag" }>;

function isReadIn({ modes }: FlagRule, mode: string): boolean {
	return modes === undefined || modes.includes(mode);
}

function flagMeaning({ flag, unset }: FlagRule, value: unknown): Meaning {
	if (unset.includes(value) || (unset.includes("0s") && isBlank(value))) return undefined;
	return { flag, text: `${value as string | number | boolean}` };
}

/** kube-proxy does not read the field in this mode either, but whoever set it may think so. */
function meaningUnread(rule: FlagRule, value: unknown): Meaning {
	return asksForNothing(rule, value) ? undefined : "ignored";
}

function ignoredLine(path: string, ignored: readonly string[]): readonly string[] {
	return ignored.length === 0 ? [] : [`${path}: without effect here: ${ignored.join(", ")}`];
}

function modeLine(path: string, mode: string): readonly string[] {
	return mode === "" || mode === "userspace"
		? []
		: [`${path}: mode ${mode}: this daemon relays in userspace whatever the mode`];
}
