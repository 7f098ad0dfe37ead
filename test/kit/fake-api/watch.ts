import type { Change, Database } from "./database.ts";
import { type ApiObject, matchesFields, matchesLabels } from "./objects.ts";

/** Where a watch's lines go. */
interface WatchOutput {
	write(text: string): void;
	end(): void;
	/** Breaks the connection: by a reset where `reset`, else without the end of the body. */
	destroy(reset: boolean): void;
}

export interface WatchOptions {
	readonly database: Database;
	readonly plural: string;
	/** Put into each object, as the version that was asked for. */
	readonly apiVersion: string;
	readonly query: Readonly<Record<string, string>>;
	readonly output: WatchOutput;
	readonly bookmarkMs: number;
	/** A streaming list is answered as a plain watch. */
	readonly ignoresStreams?: boolean;
}

/** One open watch: the events of its kind and selectors, as lines of JSON. */
export class Watch {
	readonly plural: string;
	readonly #options: WatchOptions;
	readonly #timers: NodeJS.Timeout[] = [];
	#unlisten: () => void = () => {};
	#silent = false;

	constructor(options: WatchOptions) {
		this.#options = options;
		this.plural = options.plural;
	}

	/** Sends what the client asked to begin with, then what changes. */
	start(): void {
		const { database, query, bookmarkMs } = this.#options;
		this.#unlisten = database.listen((change) => this.#send(change));
		if (!this.#sendInitial()) return;
		const everyBookmark = setInterval(() => this.bookmark(), bookmarkMs);
		const timeoutMs = Number(query["timeoutSeconds"] ?? 1_800) * 1_000;
		const lastBookmark = setTimeout(() => this.bookmark(), Math.max(0, timeoutMs - 2_000));
		this.#timers.push(
			everyBookmark,
			lastBookmark,
			setTimeout(() => this.end(), timeoutMs),
		);
		for (const timer of this.#timers) timer.unref();
	}

	/** @returns false where the watch is over. */
	#sendInitial(): boolean {
		const { database, plural, query, ignoresStreams } = this.#options;
		const streams = query["sendInitialEvents"] === "true" && ignoresStreams !== true;
		// A plain watch from no version begins with what is there, too, but does not say where that ends.
		if (!streams && (query["resourceVersion"] ?? "0") !== "0") return this.#sendMissed();
		for (const object of database.list(plural)) {
			if (this.matches(object)) this.event("ADDED", object);
		}
		if (streams) this.bookmark({ "k8s.io/initial-events-end": "true" });
		return true;
	}

	#sendMissed(): boolean {
		const { database, plural, query } = this.#options;
		const missed = database.since(plural, Number(query["resourceVersion"] ?? database.version));
		if (missed !== undefined) {
			for (const change of missed) this.#send(change);
			return true;
		}
		const message = `too old resource version: ${query["resourceVersion"]} (${database.version})`;
		this.line({
			type: "ERROR",
			object: {
				kind: "Status",
				apiVersion: "v1",
				metadata: {},
				status: "Failure",
				message,
				reason: "Expired",
				code: 410,
			},
		});
		this.end();
		return false;
	}

	/** No byte more, with the connection open. */
	silence(): void {
		this.#silent = true;
	}

	bookmark(annotations?: Readonly<Record<string, string>>): void {
		const { apiVersion, database } = this.#options;
		const resourceVersion = `${database.version}`;
		const metadata = { resourceVersion, ...(annotations === undefined ? {} : { annotations }) };
		this.line({ type: "BOOKMARK", object: { apiVersion, metadata } });
	}

	event(type: string, object: ApiObject): void {
		const { apiVersion } = this.#options;
		this.line({ type, object: { ...object, apiVersion } });
	}

	line(event: unknown): void {
		this.text(`${JSON.stringify(event)}\n`);
	}

	/** Any bytes, also ones that no server sends. */
	text(text: string): void {
		if (!this.#silent) this.#options.output.write(text);
	}

	/** The beginning of a line, then the connection breaks. */
	halfLine(text: string): void {
		this.close();
		this.#options.output.write(text);
		// In a turn of its own, so that the bytes are on their way.
		setImmediate(() => this.#options.output.destroy(false));
	}

	end(): void {
		this.close();
		if (!this.#silent) this.#options.output.end();
	}

	cut(reset: boolean): void {
		this.close();
		this.#options.output.destroy(reset);
	}

	close(): void {
		this.#unlisten();
		for (const timer of this.#timers) clearTimeout(timer);
	}

	matches(object: ApiObject): boolean {
		const { query } = this.#options;
		return (
			matchesLabels(object, query["labelSelector"] ?? "") &&
			matchesFields(object, query["fieldSelector"] ?? "")
		);
	}

	/** An object that leaves the selector is DELETED for this watch, one that enters it ADDED. */
	#send({ plural, version, before, after }: Change): void {
		if (plural !== this.plural) return;
		const was = before !== undefined && this.matches(before);
		const is = after !== undefined && this.matches(after);
		if (is) this.event(was ? "MODIFIED" : "ADDED", after);
		else if (was) {
			const last = after ?? before;
			const metadata = { ...last.metadata, resourceVersion: `${version}` };
			this.event("DELETED", { ...last, metadata });
		}
	}
}
