import { type ApiError, type Asked, parseStatus, statusError } from "./api-errors.ts";
import type { ListInProgress } from "./object-store.ts";
import { isRecord, metadataOf, resourceVersionOf } from "./records.ts";
import { requireKind } from "./require-kind.ts";
import type { Resource } from "./resources.ts";

/** Where the events of a watch go. */
interface EventSink {
	/** @returns whether the state changed. */
	put(raw: unknown): boolean;
	/** @returns whether the state changed. */
	remove(raw: unknown): boolean;
}

export interface WatchSessionOptions {
	readonly asked: Asked;
	/** What the events are about. */
	readonly resource: Pick<Resource, "kind" | "apiVersion">;
	readonly sink: EventSink;
	/** The list that a streaming list begins with; undefined for a plain watch. */
	readonly initial: ListInProgress | undefined;
	/** The version that the watch starts from; "" for a streaming list. */
	readonly resourceVersion: string;
}

/**
 * What the events of one watch mean, one at a time. Pure but for the sink: no connection, no time.
 *
 *     initial list ──(bookmark with initial-events-end)──► current ──(ERROR event)──► over
 *
 * A plain watch is current from the start.
 */
export class WatchSession {
	readonly #options: WatchSessionOptions;
	#initial: ListInProgress | undefined;
	#resourceVersion: string;
	#eventCount = 0;
	#listedCount = 0;
	#changeCount = 0;
	#changed = false;

	constructor(options: WatchSessionOptions) {
		this.#options = options;
		this.#initial = options.initial;
		this.#resourceVersion = options.resourceVersion;
	}

	/** True once the state holds all that the server had when the watch began. */
	get isCurrent(): boolean {
		return this.#initial === undefined;
	}

	/** Where a next watch has to begin: the version of the last event taken in. */
	get resourceVersion(): string {
		return this.#resourceVersion;
	}

	/** Events taken in so far, bookmarks too. */
	get eventCount(): number {
		return this.#eventCount;
	}

	/** Objects that an initial list has brought so far; changes of those in between do not count. */
	get listedCount(): number {
		return this.#listedCount;
	}

	/** Objects that came, changed or went while the state was current. */
	get changeCount(): number {
		return this.#changeCount;
	}

	/** Whether the state changed since the last call. */
	takeChanged(): boolean {
		const changed = this.#changed;
		this.#changed = false;
		return changed;
	}

	/**
	 * @throws {ApiError} at an ERROR event, and at an object of another kind than was asked for: the
	 * watch is over, the state is what it was before it.
	 */
	take(event: unknown): void {
		const type = isRecord(event) ? event["type"] : undefined;
		const object = isRecord(event) ? event["object"] : undefined;
		if (typeof type !== "string") return;
		if (type === "ERROR") throw this.#error(object);
		const { resource, asked } = this.#options;
		requireKind(object, resource, asked);
		this.#eventCount += 1;
		switch (type) {
			case "ADDED":
				if (!this.isCurrent) this.#listedCount += 1;
				this.#put(object);
				break;
			case "MODIFIED":
				this.#put(object);
				break;
			case "DELETED":
				this.#remove(object);
				break;
			case "BOOKMARK":
				this.#endInitial(object);
				break;
			default:
				// An event type of a later Kubernetes: what it says cannot be known.
				return;
		}
		const version = resourceVersionOf(object);
		// During an initial list versions come in any order; only its end says where it stands.
		if (version !== "" && this.isCurrent) this.#resourceVersion = version;
	}

	#put(object: unknown): void {
		if (this.#initial !== undefined) this.#initial.put(object);
		else this.#count(this.#options.sink.put(object));
	}

	#remove(object: unknown): void {
		if (this.#initial !== undefined) this.#initial.remove(object);
		else this.#count(this.#options.sink.remove(object));
	}

	#count(changed: boolean): void {
		this.#changeCount += 1;
		if (changed) this.#changed = true;
	}

	#endInitial(bookmark: unknown): void {
		const annotations = metadataOf(bookmark)["annotations"];
		const ends = isRecord(annotations) && annotations["k8s.io/initial-events-end"] === "true";
		if (this.#initial === undefined || !ends) return;
		if (this.#initial.commit()) this.#changed = true;
		this.#initial = undefined;
	}

	#error(object: unknown): ApiError {
		const status = parseStatus(object);
		return statusError(this.#options.asked, status.code ?? 500, object, undefined);
	}
}
