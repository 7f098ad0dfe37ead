import { type Admission, describeProblem } from "../../services/admission.ts";
import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { oneLine } from "../one-line.ts";
import type { RejectedObject } from "../source.ts";
import { identify, type ObjectIdentity } from "./records.ts";

/** One object of the API gives one of ours, but for Endpoints: those give one slice per subset. */
export type Admit<T> = (raw: unknown) => Admission<readonly T[]>;

/** For kinds of which one object gives exactly one of ours. */
export function one<T>(admit: (raw: unknown) => Admission<T>): Admit<T> {
	return (raw) => {
		const admission = admit(raw);
		return admission.admitted ? { admitted: true, object: [admission.object] } : admission;
	};
}

/** Refused objects that are named in logs and status; the others are only counted. */
const MAX_NAMED = 100;
const MAX_PROBLEMS = 5;

interface Entry<T> {
	readonly uid: string;
	readonly resourceVersion: string;
	readonly objects: readonly T[];
	/** Undefined for an admitted object. */
	readonly rejected: RejectedObject | undefined;
}

/** How the objects of a store are read; changes when another version of the API is chosen. */
export interface Reading<T> {
	/** "EndpointSlice": for messages. */
	readonly kind: string;
	readonly admit: Admit<T>;
}

/**
 * The newest state of one kind of object: what was admitted, and what was refused and why.
 *
 * Holds as many objects as the cluster has. A refused object is said once, and again only when what
 * is wrong with it changes; it takes no part in the state, also when its predecessor did.
 */
export class ObjectStore<T> {
	readonly #log: Log;
	#reading: Reading<T>;
	#entries = new Map<string, Entry<T>>();
	#rejectedCount = 0;
	#saidNameless = false;

	constructor(reading: Reading<T>, log: Log) {
		this.#reading = reading;
		this.#log = log;
	}

	/** @returns whether the state is another one now. */
	put(raw: unknown): boolean {
		const identity = identify(raw);
		if (identity === undefined) {
			this.#sayNameless();
			return false;
		}
		const old = this.#entries.get(identity.key);
		const entry = toEntry(this.#reading, raw, identity);
		this.#entries.set(identity.key, entry);
		if (old?.rejected !== undefined) this.#rejectedCount -= 1;
		if (entry.rejected !== undefined) this.#rejectedCount += 1;
		this.#say(old, entry);
		return true;
	}

	/** @returns whether the state is another one now; false for an object that is not there. */
	remove(raw: unknown): boolean {
		const key = identify(raw)?.key;
		if (key === undefined) return false;
		const old = this.#entries.get(key);
		if (old?.rejected !== undefined) this.#rejectedCount -= 1;
		return this.#entries.delete(key);
	}

	/** Collects a complete list beside the state, which stays as it is until the commit. */
	beginList(reading: Reading<T>): ListInProgress {
		const next = new Map<string, Entry<T>>();
		// Objects that did not change keep their identity, so that nobody works on them again; but not
		// where another version of the API is read: the same object may mean something else there.
		const known = reading === this.#reading ? this.#entries : undefined;
		return {
			put: (raw) => {
				const identity = identify(raw);
				if (identity === undefined) {
					this.#sayNameless();
					return;
				}
				const old = known?.get(identity.key);
				const same = old !== undefined && isSame(old, identity);
				next.set(identity.key, same ? old : toEntry(reading, raw, identity));
			},
			remove: (raw) => {
				const key = identify(raw)?.key;
				if (key !== undefined) next.delete(key);
			},
			commit: () => this.#replace(reading, next),
		};
	}

	*objects(): Generator<T, void, undefined> {
		for (const entry of this.#entries.values()) yield* entry.objects;
	}

	/** At most 100, of those that are there now. */
	rejected(): readonly RejectedObject[] {
		if (this.#rejectedCount === 0) return [];
		const found: RejectedObject[] = [];
		for (const { rejected } of this.#entries.values()) {
			if (rejected === undefined) continue;
			found.push(rejected);
			if (found.length === MAX_NAMED) break;
		}
		return found;
	}

	#replace(reading: Reading<T>, next: Map<string, Entry<T>>): boolean {
		const old = this.#entries;
		this.#reading = reading;
		this.#entries = next;
		this.#rejectedCount = 0;
		let changed = old.size !== next.size;
		for (const [key, entry] of next) {
			const before = old.get(key);
			changed ||= before !== entry;
			if (entry.rejected !== undefined) this.#rejectedCount += 1;
			// The counter already holds the entry, so that a commit with thousands of bad objects ends.
			this.#say(before, entry);
		}
		return changed;
	}

	/** No API server sends one, and there is no key to remember it by: said once in a life. */
	#sayNameless(): void {
		if (this.#saidNameless) return;
		this.#saidNameless = true;
		this.#log.warn({ kind: this.#reading.kind }, "object without a name left out");
	}

	#say(before: Entry<T> | undefined, after: Entry<T>): void {
		const { rejected } = after;
		if (rejected === undefined) {
			if (before?.rejected === undefined) return;
			this.#log.info({ object: before.rejected.object }, "object is fine again");
			return;
		}
		if (before?.rejected?.problems.join() === rejected.problems.join()) return;
		if (this.#rejectedCount <= MAX_NAMED) {
			this.#log.warn(rejected, "object left out");
		} else if (this.#rejectedCount === MAX_NAMED + 1) {
			this.#log.warn({ kind: this.#reading.kind }, "more objects left out than are named");
		}
	}
}

export interface ListInProgress {
	put(raw: unknown): void;
	remove(raw: unknown): void;
	/** Puts the list in the place of the state; what it does not name is gone. @returns whether that changed anything. */
	commit(): boolean;
}

function isSame(entry: Entry<unknown>, identity: ObjectIdentity): boolean {
	const { uid, resourceVersion } = identity;
	return resourceVersion !== "" && entry.resourceVersion === resourceVersion && entry.uid === uid;
}

function toEntry<T>(reading: Reading<T>, raw: unknown, identity: ObjectIdentity): Entry<T> {
	const { uid, resourceVersion } = identity;
	const admission = admitSafely(reading.admit, raw);
	if (admission.admitted) {
		return { uid, resourceVersion, objects: admission.object, rejected: undefined };
	}
	const problems = admission.problems
		.slice(0, MAX_PROBLEMS)
		.map((problem) => oneLine(describeProblem(problem), 300));
	const more = admission.problems.length - problems.length;
	if (more > 0) problems.push(`and ${more} more`);
	const rejected = { object: oneLine(`${reading.kind} ${identity.key}`, 600), problems };
	return { uid, resourceVersion, objects: [], rejected };
}

/** Admission never throws by its contract; if it has a bug, one object is left out and not all. */
function admitSafely<T>(admit: Admit<T>, raw: unknown): Admission<readonly T[]> {
	try {
		return admit(raw);
	} catch (error) {
		const message = `cannot be checked: ${describeError(error)}`;
		return { admitted: false, problems: [{ field: "", message }] };
	}
}
