import { basename, dirname, resolve } from "node:path";
import type { Snapshot } from "../../services/objects.ts";
import { BoundedRunner } from "../../shared/bounded-runner.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { RecurringFailure } from "../../shared/recurring.ts";
import type { RejectedObject, Source, SourceStatus } from "../source.ts";
import { type CombinedFiles, combineFiles } from "./combine-files.ts";
import { describeProblems, toRejected } from "./describe-problems.ts";
import { DuplicateNotices } from "./duplicate-notices.ts";
import { FolderWatches, type WatchFolder } from "./folder-watches.ts";
import { ManifestPath } from "./manifest-path.ts";
import type { TrackedFile } from "./tracked-file.ts";

/**
 * Manifest files as a source: what the operator's files and folders say, read again whenever they
 * change.
 *
 * Turns files into a Snapshot; owns the watches on them and the last state of each that was good. A
 * file that is bad, or a path that is away, never takes from anyone what it gave before.
 */

const DEFAULT_TIMING: ManifestTiming = { gatherMs: 50, settleMs: 250, pollMs: 5_000 };

/** Problems in the status text; refused objects in the status. */
const MAX_TOLD = 3;
const MAX_REJECTED = 100;

/** All in milliseconds. */
interface ManifestTiming {
	/** Changes that come this close together are looked at together. */
	readonly gatherMs: number;
	/** A file must have rested this long before it is read: an editor may be half through. */
	readonly settleMs: number;
	/** The files are looked at this often whatever the watches say: they do not see everything. */
	readonly pollMs: number;
}

export interface ManifestSourceOptions {
	/** Files and folders; of two objects with the same name the one of the earlier path counts. */
	readonly paths: readonly string[];
	/** Which Node object is ours. */
	readonly nodeName: string;
	readonly log: Log;
	readonly clock?: Clock;
	readonly timing?: Partial<ManifestTiming>;
	readonly watch?: WatchFolder;
}

export function createManifestSource(options: ManifestSourceOptions): Source {
	return new ManifestSource(options);
}

class ManifestSource implements Source {
	readonly name: string;
	readonly #log: Log;
	readonly #clock: Clock;
	readonly #timing: ManifestTiming;
	readonly #paths: readonly ManifestPath[];
	readonly #watches: FolderWatches;
	readonly #duplicates: DuplicateNotices;
	readonly #handlerFailure: RecurringFailure;
	readonly #scanFailure: RecurringFailure;
	#runner: BoundedRunner | undefined;
	#combined: CombinedFiles = combineFiles([]);
	#isSynced = false;
	#freshAtMs: number | undefined;
	#changed: () => void = () => {};
	#closed: Promise<void> = Promise.resolve();

	constructor(options: ManifestSourceOptions) {
		const { paths, nodeName, log, clock = systemClock, timing, watch } = options;
		this.name = `manifests ${paths.join(", ")}`;
		this.#log = log;
		this.#clock = clock;
		this.#timing = { ...DEFAULT_TIMING, ...timing };
		const context = { nodeName, settleMs: this.#timing.settleMs, log, clock };
		const absolute = new Set(paths.map((path) => resolve(path)));
		this.#paths = [...absolute].map((path) => new ManifestPath(path, context));
		this.#duplicates = new DuplicateNotices(log);
		this.#watches = new FolderWatches({
			onEvent: (folder, name) => this.#onEvent(folder, name),
			log,
			clock,
			...(watch === undefined ? {} : { watch }),
		});
		this.#handlerFailure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "change handler failing",
			recovered: "change handler works again",
		});
		this.#scanFailure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "looking at manifests failing",
			recovered: "looking at manifests works again",
		});
	}

	start(onChange: () => void, signal: AbortSignal): void {
		if (signal.aborted) return;
		const { gatherMs, pollMs } = this.#timing;
		this.#changed = onChange;
		const runner = new BoundedRunner({
			run: (abort) => this.#scan(abort),
			onFailure: (error) => this.#scanFailure.failed(describeError(error)),
			minIntervalMs: gatherMs,
			burst: 1,
			gatherMs,
			maxIntervalMs: pollMs,
			now: () => this.#clock.monotonicMs(),
		});
		this.#runner = runner;
		this.#closed = new Promise((closed) => {
			signal.addEventListener(
				"abort",
				() => {
					this.#watches.close();
					void runner.stop().finally(closed);
				},
				{ once: true },
			);
		});
		runner.request();
	}

	refresh(): void {
		for (const file of this.#files()) file.forget();
		this.#runner?.request();
	}

	isSynced(): boolean {
		return this.#isSynced;
	}

	snapshot(): Snapshot {
		return this.#combined.snapshot;
	}

	status(): SourceStatus {
		return {
			name: this.name,
			synced: this.#isSynced,
			freshAtMs: this.#freshAtMs,
			problem: this.#problem(),
			rejected: this.#rejected(),
		};
	}

	closed(): Promise<void> {
		return this.#closed;
	}

	async #scan(signal: AbortSignal): Promise<void> {
		// Before the look, so that nothing can change between the two unseen.
		await this.#watches.update(this.#foldersToWatch());
		const at = { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.wallMs() };
		const claimed = new Set<string>();
		const hadFolders = this.#foldersToWatch().size;
		let changed = false;
		let restless = false;
		let fresh = true;
		for (const path of this.#paths) {
			// oxlint-disable-next-line no-await-in-loop -- the order of the paths decides who claims a file
			const scan = await path.scan(claimed, at, signal);
			changed ||= scan.changed;
			restless ||= scan.restless;
			fresh &&= scan.fresh;
		}
		if (signal.aborted) return;
		this.#scanFailure.succeeded();
		// A folder that has just turned out to be one is watched from the next look on.
		if (restless || this.#foldersToWatch().size > hadFolders) this.#runner?.request();
		// A path whose files an earlier path reads is not known before those are.
		const complete = !restless && this.#paths.every((path) => path.isComplete);
		this.#settle({ changed, complete, fresh }, at.wallMs);
	}

	#settle(
		{ changed, complete, fresh }: Record<"changed" | "complete" | "fresh", boolean>,
		atMs: number,
	): void {
		const isFirst = !this.#isSynced && complete;
		if (isFirst) this.#isSynced = true;
		if (this.#isSynced && fresh) this.#freshAtMs = atMs;
		if (!changed && !isFirst) return;
		const files = this.#files().map(({ path, state }) => ({ path, objects: state?.objects ?? [] }));
		this.#combined = combineFiles(files);
		this.#duplicates.see(this.#combined.duplicates);
		const { services, endpointSlices } = this.#combined.snapshot;
		this.#log.info(
			{ files: files.length, services: services.size, endpointSlices: endpointSlices.size },
			"manifests read",
		);
		try {
			this.#changed();
			this.#handlerFailure.succeeded();
		} catch (error) {
			// A bug of whoever listens: it must be seen, and must not end the reading.
			this.#handlerFailure.failed(describeError(error));
		}
	}

	/** Each path where it is a folder, and what holds it: a path may come, go or be swapped. */
	#foldersToWatch(): ReadonlySet<string> {
		return new Set(
			this.#paths.flatMap(({ path, isFolder }) =>
				isFolder ? [path, dirname(path)] : [dirname(path)],
			),
		);
	}

	#onEvent(folder: string, name: string | null): void {
		if (name === null || this.#concerns(folder, name)) this.#runner?.request();
	}

	#concerns(folder: string, name: string): boolean {
		return this.#paths.some(
			({ path, isFolder }) =>
				(isFolder && path === folder) ||
				// A mounted ConfigMap changes its files by swapping the link "..data" beside them.
				(dirname(path) === folder && (name === basename(path) || name.startsWith(".."))),
		);
	}

	#files(): readonly TrackedFile[] {
		return this.#paths.flatMap((path) => path.files);
	}

	#problem(): string | undefined {
		const texts = [
			...this.#paths.flatMap(({ problem }) => (problem === undefined ? [] : [problem])),
			...this.#files().flatMap(({ path, state }) =>
				state === undefined || state.problems.length === 0
					? []
					: [`${path}: ${describeProblems(state.problems)}`],
			),
		];
		if (texts.length === 0) return undefined;
		const more = texts.length - MAX_TOLD;
		return [...texts.slice(0, MAX_TOLD), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
	}

	#rejected(): readonly RejectedObject[] {
		return this.#files()
			.flatMap(({ path, state }) =>
				(state?.problems ?? []).map((problem) => toRejected(path, problem)),
			)
			.slice(0, MAX_REJECTED);
	}
}
