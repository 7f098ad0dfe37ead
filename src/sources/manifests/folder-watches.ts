import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { describeError, errorCode } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { RecurringFailure } from "../../shared/recurring.ts";

/** As node:fs has it; tests give one that fails. */
export type WatchFolder = (
	path: string,
	listener: (event: string, name: string | null) => void,
) => FSWatcher;

interface Watching {
	readonly watcher: FSWatcher;
	/** A folder that was removed and made again is another one, which the old watch does not see. */
	readonly identity: string;
}

export interface FolderWatchesOptions {
	/** @param name of the entry that changed; null when the system does not tell. */
	readonly onEvent: (folder: string, name: string | null) => void;
	readonly log: Log;
	readonly clock?: Clock;
	readonly watch?: WatchFolder;
}

/**
 * Keeps a watch on each of some folders, as far as the system lets us: a hint to look at once, which
 * the caller's polling does not depend on. Said once when it cannot, and once when it can again.
 */
export class FolderWatches {
	readonly #options: FolderWatchesOptions;
	readonly #watch: WatchFolder;
	readonly #failure: RecurringFailure;
	readonly #watching = new Map<string, Watching>();
	#isClosed = false;

	constructor(options: FolderWatchesOptions) {
		const { log, clock = systemClock, watch: watchFolder } = options;
		this.#options = options;
		this.#watch = watchFolder ?? ((path, listener) => watch(path, listener));
		this.#failure = new RecurringFailure({
			log,
			clock,
			failing: "cannot watch manifests, looking at them every few seconds instead",
			recovered: "manifests are watched again",
			// Nothing is lost but speed: once is enough.
			summaryMs: Number.POSITIVE_INFINITY,
		});
	}

	/** Watches exactly these folders from now on; those that are absent once they are there. */
	async update(folders: ReadonlySet<string>): Promise<void> {
		for (const folder of this.#watching.keys()) if (!folders.has(folder)) this.#drop(folder);
		let problem: string | undefined;
		for (const folder of folders) {
			// oxlint-disable-next-line no-await-in-loop -- a handful of folders
			problem = (await this.#ensure(folder)) ?? problem;
		}
		if (problem === undefined) this.#failure.succeeded();
		else this.#failure.failed(problem);
	}

	/** Nothing is watched any more. May be called twice. */
	close(): void {
		this.#isClosed = true;
		for (const folder of this.#watching.keys()) this.#drop(folder);
	}

	/** @returns why the folder cannot be watched; undefined also when it is not there. */
	async #ensure(folder: string): Promise<string | undefined> {
		const identity = await identify(folder);
		if (this.#watching.get(folder)?.identity === identity) return undefined;
		this.#drop(folder);
		if (identity === undefined || this.#isClosed) return undefined;
		try {
			const watcher = this.#watch(folder, (_event, name) => this.#onEvent(folder, name));
			watcher.on("error", () => this.#drop(folder));
			this.#watching.set(folder, { watcher, identity });
			return undefined;
		} catch (error) {
			// It went away in between.
			if (errorCode(error) === "ENOENT") return undefined;
			return describeWatchError(error);
		}
	}

	#onEvent(folder: string, name: string | null): void {
		// The folder's own end comes under its own name; its inode may come back with another folder.
		if (name === basename(folder)) this.#drop(folder);
		this.#options.onEvent(folder, name);
	}

	#drop(folder: string): void {
		this.#watching.get(folder)?.watcher.close();
		this.#watching.delete(folder);
	}
}

async function identify(folder: string): Promise<string | undefined> {
	try {
		const stats = await stat(folder, { bigint: true });
		return stats.isDirectory() ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : undefined;
	} catch {
		return undefined;
	}
}

function describeWatchError(error: unknown): string {
	const text = describeError(error);
	const code = errorCode(error);
	if (code === "ENOSPC") return `${text} (raise the sysctl fs.inotify.max_user_watches)`;
	if (code === "EMFILE") return `${text} (raise the sysctl fs.inotify.max_user_instances)`;
	return text;
}
