import type { Admission, FieldProblem } from "./admission.ts";

/** Values are shown so far: enough to recognise one, too short to flood a log. */
const MAX_SHOWN_CHARACTERS = 60;

/** So long is the list at most, of which the last may count the rest: nobody mends more at a time. */
const MAX_PROBLEMS = 20;

/** A JSON object from outside. */
export type RawObject = Readonly<Record<string, unknown>>;

/** Collects everything that is wrong with one object from outside, field by field. */
export class FieldProblems {
	readonly #problems: FieldProblem[] = [];
	#unnamed = 0;

	/** @param wanted "an integer in 1..65535". */
	add(field: string, wanted: string, got: unknown): void {
		this.addText(field, `wanted ${wanted}, got ${showValue(got)}`);
	}

	/** For faults that no single value shows. */
	addText(field: string, message: string): void {
		if (this.#problems.length < MAX_PROBLEMS - 1) this.#problems.push({ field, message });
		else this.#unnamed += 1;
	}

	/** The admission of `object`, unless something was wrong. */
	admit<T>(object: T): Admission<T> {
		if (this.#problems.length === 0) return { admitted: true, object };
		if (this.#unnamed > 0) {
			const all = this.#problems.length + this.#unnamed;
			this.#problems.push({ field: "", message: `wanted no more faults than these, got ${all}` });
		}
		return { admitted: false, problems: this.#problems };
	}

	/** An object, or undefined (and a problem) when the field holds anything else. */
	object(field: string, value: unknown): RawObject | undefined {
		if (isRawObject(value)) return value;
		this.add(field, "an object", value);
		return undefined;
	}

	/** A list; an absent one is empty. Anything else is a problem, and an empty list. */
	list(field: string, value: unknown, maxItems: number): readonly unknown[] {
		if (value === undefined || value === null) return [];
		if (!Array.isArray(value)) {
			this.add(field, "a list", value);
			return [];
		}
		if (value.length > maxItems) {
			this.addText(field, `wanted at most ${maxItems} items, got ${value.length}`);
			return [];
		}
		return value;
	}

	/** A string; absent is `fallback`. Anything else is a problem, and `fallback`. */
	string<F extends string | undefined>(field: string, value: unknown, fallback: F): string | F {
		if (value === undefined || value === null) return fallback;
		if (typeof value === "string") return value;
		this.add(field, "a string", value);
		return fallback;
	}

	/** A boolean; absent is `fallback`. Anything else is a problem, and `fallback`. */
	boolean(field: string, value: unknown, fallback: boolean): boolean {
		if (value === undefined || value === null) return fallback;
		if (typeof value === "boolean") return value;
		this.add(field, "true or false", value);
		return fallback;
	}

	/** One of the names; absent is `fallback`. Anything else is a problem, and `fallback`. */
	oneOf<T extends string, F extends T | undefined>(
		field: string,
		value: unknown,
		names: readonly T[],
		fallback: F,
	): T | F {
		if (value === undefined || value === null || value === "") return fallback;
		const found = names.find((name) => name === value);
		if (found !== undefined) return found;
		this.add(field, `one of ${names.join(", ")}`, value);
		return fallback;
	}
}

export function isRawObject(value: unknown): value is RawObject {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** True of an absent or empty list; false of what should be a list and is none: that is another fault. */
export function isNoItem(list: unknown): boolean {
	return list === undefined || list === null || (Array.isArray(list) && list.length === 0);
}

/** The value as JSON, cut; never throws, whatever it is. */
export function showValue(value: unknown): string {
	if (value === undefined) return "nothing";
	const text = shallowJson(value);
	return text.length <= MAX_SHOWN_CHARACTERS ? text : `${text.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}

function shallowJson(value: unknown): string {
	// A list or an object may be of any depth and size: it is named, not printed.
	if (Array.isArray(value)) return `a list of ${value.length}`;
	if (typeof value === "object" && value !== null) return "an object";
	if (typeof value === "string") return JSON.stringify(value.slice(0, MAX_SHOWN_CHARACTERS + 1));
	return String(value);
}
