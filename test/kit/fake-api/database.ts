import { type ApiObject, keyOf, PLURALS } from "./objects.ts";

/** One change, with what was there before and after it. */
export interface Change {
	readonly plural: string;
	readonly version: number;
	readonly before: ApiObject | undefined;
	readonly after: ApiObject | undefined;
}

/** What etcd and the watch cache are to a real server: objects, versions, and a history that can be cut. */
export class Database {
	readonly #objects = new Map<string, Map<string, ApiObject>>();
	readonly #listeners = new Set<(change: Change) => void>();
	#history: Change[] = [];
	#version = 100;
	/** Watches from before this are answered with 410. */
	#oldest = 0;
	#uids = 0;

	get version(): number {
		return this.#version;
	}

	/** Creates or replaces; gives the object its version, and a uid where it has none. */
	put(object: ApiObject): ApiObject {
		const plural = PLURALS[object.kind];
		if (plural === undefined) throw new TypeError(`The fake API knows no ${object.kind}`);
		const objects = this.#objectsOf(plural);
		const before = objects.get(keyOf(object));
		this.#version += 1;
		this.#uids += 1;
		const uid = object.metadata.uid ?? before?.metadata.uid ?? `uid-${this.#uids}`;
		const metadata = { ...object.metadata, uid, resourceVersion: `${this.#version}` };
		const after = { ...object, metadata };
		objects.set(keyOf(object), after);
		this.#publish({ plural, version: this.#version, before, after });
		return after;
	}

	/** Does nothing where there is no such object. */
	delete(kind: string, namespace: string, name: string): void {
		const plural = PLURALS[kind] ?? "";
		const objects = this.#objectsOf(plural);
		const key = `${namespace}/${name}`;
		const before = objects.get(key);
		if (before === undefined) return;
		objects.delete(key);
		this.#version += 1;
		this.#publish({ plural, version: this.#version, before, after: undefined });
	}

	list(plural: string): ApiObject[] {
		const byKey = [...this.#objectsOf(plural)].toSorted(([a], [b]) => (a < b ? -1 : 1));
		return byKey.map(([, object]) => object);
	}

	/** Changes after a version, oldest first; undefined when they are no longer known. */
	since(plural: string, version: number): Change[] | undefined {
		if (version < this.#oldest) return undefined;
		return this.#history.filter((change) => change.plural === plural && change.version > version);
	}

	/** Moves the version on without a change of any object, as other kinds' changes do. */
	tick(): void {
		this.#version += 1;
	}

	/** Forgets the history: watches from any version before now are too old. */
	compact(): void {
		this.#history = [];
		this.#version += 1;
		this.#oldest = this.#version;
	}

	listen(listener: (change: Change) => void): () => void {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	}

	#objectsOf(plural: string): Map<string, ApiObject> {
		const known = this.#objects.get(plural);
		if (known !== undefined) return known;
		const made = new Map<string, ApiObject>();
		this.#objects.set(plural, made);
		return made;
	}

	#publish(change: Change): void {
		this.#history.push(change);
		for (const listener of this.#listeners) listener(change);
	}
}
