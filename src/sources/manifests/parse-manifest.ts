import { describeProblem, type FieldProblem } from "../../services/admission.ts";
import { isRawObject, type RawObject, showValue } from "../../services/field-problems.ts";
import {
	admitObject,
	inDefaultNamespace,
	isManifestKind,
	keyOf,
	type ManifestKind,
	type ManifestObject,
} from "./admit-object.ts";
import { type FieldPath, type ManifestDocument, readDocuments } from "./manifest-documents.ts";

/** Objects in one file, of any kind; further ones are left out and that is a fault of the file. */
export const MAX_OBJECTS = 50_000;

/** Lists in lists: nobody writes them by hand, and no tool nests them deeper. */
const MAX_LIST_DEPTH = 8;

/** Refused objects of one file that are told one by one. */
const MAX_PROBLEMS = 100;

/** Kinds that we have no use for, told apart. */
const MAX_OTHER_KINDS = 50;

/** One object, or one whole document, that is left out. */
export interface ManifestProblem {
	/** 1-based; undefined when it is about the whole file. */
	readonly document: number | undefined;
	/** "Service shop/cart"; "" where no object could be made out. */
	readonly object: string;
	/** At least one. */
	readonly faults: readonly ManifestFault[];
}

export interface ManifestFault {
	/** 1-based; undefined where not known. */
	readonly line: number | undefined;
	/** "spec.ports[0].port: wanted an integer in 1..65535, got 70000". */
	readonly text: string;
}

export interface ParsedManifest {
	/** In the order of the file. */
	readonly objects: readonly ManifestObject[];
	/** In the order of the file, at most 100; empty when the file is good as a whole. */
	readonly problems: readonly ManifestProblem[];
	/** True when a document is no YAML or JSON at all: nobody knows what is in it. */
	readonly isTorn: boolean;
	/** How many objects there are of each kind that we have no use for: "Deployment apps/v1". */
	readonly otherKinds: ReadonlyMap<string, number>;
}

/** Turns the text of a manifest into admitted objects and what is wrong with it. Never throws. */
export function parseManifest(text: string, nodeName: string): ParsedManifest {
	const steps = parseInSteps(text, nodeName);
	for (;;) {
		const step = steps.next();
		if (step.done === true) return step.value;
	}
}

/** The same with many stops, so that a caller can let others work in between. */
export function* parseInSteps(
	text: string,
	nodeName: string,
): Generator<undefined, ParsedManifest, undefined> {
	const reading = new Reading(nodeName);
	for (const document of readDocuments(text)) {
		if (document !== undefined) yield* reading.addDocument(document);
		yield undefined;
	}
	return reading;
}

type Steps = Generator<undefined, void, undefined>;

/** Where in a document an object stands. */
interface Place {
	readonly document: ManifestDocument;
	readonly path: FieldPath;
	readonly depth: number;
	/** What a typed list says for its items, which have neither kind nor apiVersion in it. */
	readonly inherited: RawObject;
}

class Reading implements ParsedManifest {
	readonly objects: ManifestObject[] = [];
	readonly problems: ManifestProblem[] = [];
	readonly otherKinds = new Map<string, number>();
	isTorn = false;
	readonly #nodeName: string;
	#seen = 0;

	constructor(nodeName: string) {
		this.#nodeName = nodeName;
	}

	*addDocument(document: ManifestDocument): Steps {
		const { content, number } = document;
		if ("fault" in content) {
			this.isTorn = true;
			const faults = [{ line: content.line, text: content.fault }];
			this.#report({ document: number, object: "", faults });
		} else if (content.value !== null && content.value !== undefined) {
			yield* this.#add(content.value, { document, path: [], depth: 0, inherited: {} });
		}
	}

	*#add(value: unknown, place: Place): Steps {
		this.#seen += 1;
		if (this.#seen > MAX_OBJECTS) {
			if (this.#seen > MAX_OBJECTS + 1) return;
			const message = `wanted at most ${MAX_OBJECTS} objects in one file, got more`;
			this.#refuse("", place, [{ field: "", message }]);
			return;
		}
		if (!isRawObject(value)) {
			// Named, not shown: nobody knows what kind of file this is, it may be full of secrets.
			const got = Array.isArray(value) ? "a list" : `a ${typeof value}`;
			this.#refuse("", place, [{ field: "", message: `wanted an object, got ${got}` }]);
			return;
		}
		const raw = { ...place.inherited, ...value };
		const { kind, apiVersion } = raw;
		if (typeof kind !== "string" || kind === "")
			this.#refuse("", place, [wantedText("kind", kind)]);
		else if (typeof apiVersion !== "string" || apiVersion === "") {
			this.#refuse(kind, place, [wantedText("apiVersion", apiVersion)]);
		} else yield* this.#addTyped(raw, { kind, apiVersion }, place);
	}

	*#addTyped(
		raw: RawObject,
		type: { readonly kind: string; readonly apiVersion: string },
		place: Place,
	): Steps {
		const { kind, apiVersion } = type;
		const itemKind = kind.endsWith("List") ? kind.slice(0, -"List".length) : undefined;
		if (isManifestKind(kind, apiVersion)) this.#addObject(kind, raw, place);
		else if (itemKind === "" && apiVersion === "v1") yield* this.#addItems(kind, raw, place, {});
		else if (itemKind !== undefined && isManifestKind(itemKind, apiVersion)) {
			yield* this.#addItems(kind, raw, place, { kind: itemKind, apiVersion });
		} else this.#countOther(`${kind} ${apiVersion}`);
	}

	*#addItems(kind: string, raw: RawObject, place: Place, inherited: RawObject): Steps {
		const items = raw["items"] ?? [];
		if (!Array.isArray(items)) {
			this.#refuse(kind, place, [
				{ field: "items", message: `wanted a list, got ${showValue(items)}` },
			]);
			return;
		}
		const depth = place.depth + 1;
		if (depth > MAX_LIST_DEPTH) {
			const message = `wanted lists nested at most ${MAX_LIST_DEPTH} deep, got more`;
			this.#refuse(kind, place, [{ field: "items", message }]);
			return;
		}
		for (const [index, item] of items.entries()) {
			yield undefined;
			yield* this.#add(item, { ...place, path: [...place.path, "items", index], depth, inherited });
		}
	}

	#addObject(kind: ManifestKind, raw: RawObject, place: Place): void {
		const named = kind === "Node" ? raw : inDefaultNamespace(raw);
		const key = keyOf(kind, named);
		// A dump of a cluster has all its nodes; only one of them is ours to judge.
		if (kind === "Node" && key !== this.#nodeName) return;
		const admission = admitObject(kind, named);
		if (admission.admitted) {
			this.objects.push({ document: place.document.number, key, ...admission.object });
		} else {
			this.#refuse(`${kind} ${key}`, place, admission.problems);
		}
	}

	#refuse(object: string, { document, path }: Place, problems: readonly FieldProblem[]): void {
		if (this.problems.length >= MAX_PROBLEMS) return;
		const prefix = object === "" ? `${showPath(path)}` : "";
		const faults = problems.map((problem) => ({
			line: document.lineOf([...path, ...toPath(problem.field)]),
			text: prefix === "" ? describeProblem(problem) : `${prefix}: ${describeProblem(problem)}`,
		}));
		this.#report({ document: document.number, object, faults });
	}

	#report(problem: ManifestProblem): void {
		if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
	}

	#countOther(kind: string): void {
		const name = kind.slice(0, 120);
		if (this.otherKinds.size >= MAX_OTHER_KINDS && !this.otherKinds.has(name)) return;
		this.otherKinds.set(name, (this.otherKinds.get(name) ?? 0) + 1);
	}
}

function wantedText(field: string, got: unknown): FieldProblem {
	return { field, message: `wanted a text, got ${showValue(got)}` };
}

/** `spec.ports[0].port` and `metadata.labels["kubernetes.io/service-name"]` as paths. */
function toPath(field: string): FieldPath {
	return [...field.matchAll(/\["([^"]*)"\]|\[(\d+)\]|([^.[\]]+)/g)].map(
		([text, quoted, index, name]) =>
			index === undefined ? (quoted ?? name ?? text) : Number(index),
	);
}

/** "items[3]". */
function showPath(path: FieldPath): string {
	return path
		.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`))
		.join("")
		.slice(1);
}
