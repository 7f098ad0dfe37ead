import { RecurringFailure } from "../../shared/recurring.ts";
import { type ListedFile, listManifests, type PathListing } from "./manifest-files.ts";
import type { Moment } from "./rest.ts";
import { type FileContext, TrackedFile } from "./tracked-file.ts";

/** A path that stays away is told again this often, in milliseconds. */
const REMINDER_MS = 600_000;

/** What one look at a path came to. */
export interface Scan {
	/** What counts is something else than before. */
	readonly changed: boolean;
	/** Something is being written: look again soon. */
	readonly restless: boolean;
	/** The path could be looked at: its state is as new as this look. */
	readonly fresh: boolean;
}

/**
 * One path that the operator named, a file or a folder, with the last state of what is in it.
 *
 * A file that leaves a folder takes its objects with it. A path that is away as a whole does not: an
 * unmounted folder must not stop every Service.
 */
export class ManifestPath {
	readonly path: string;
	readonly #context: FileContext;
	readonly #failure: RecurringFailure;
	/** Keyed by path, in the order that decides between equal objects. */
	#files: ReadonlyMap<string, TrackedFile> = new Map();
	#isFolder = false;
	#isComplete = false;
	#device: bigint | undefined;
	#awaySinceMs: number | undefined;

	constructor(path: string, context: FileContext) {
		const { log, clock } = context;
		this.path = path;
		this.#context = context;
		this.#failure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "cannot look at manifests",
			recovered: "manifests can be looked at again",
			summaryMs: REMINDER_MS,
		});
	}

	/** True once all of it has been read; never false again. */
	get isComplete(): boolean {
		return this.#isComplete;
	}

	get isFolder(): boolean {
		return this.#isFolder;
	}

	get files(): readonly TrackedFile[] {
		return [...this.#files.values()];
	}

	/** Why it cannot be looked at at present; undefined when all is well. */
	get problem(): string | undefined {
		const { problem } = this.#failure;
		return problem === undefined ? undefined : `${this.path} ${problem}`;
	}

	/** @param claimed files that an earlier path has read; this one's are added. */
	async scan(claimed: Set<string>, at: Moment, signal: AbortSignal): Promise<Scan> {
		const listing = await listManifests(this.path);
		const trouble = this.#troubleWith(listing);
		if (listing.state !== "listed" || trouble !== undefined) {
			return { changed: false, restless: this.#isAway(trouble ?? "", at), fresh: false };
		}
		this.#awaySinceMs = undefined;
		this.#failure.succeeded({ path: this.path });
		this.#device = listing.device;
		this.#isFolder = listing.isFolder;
		const files = listing.files.filter(({ path }) => !claimed.has(path));
		for (const { path } of files) claimed.add(path);
		const scan = await this.#lookAt(files, at, signal);
		if (!scan.restless && !signal.aborted) this.#isComplete = true;
		return scan;
	}

	async #lookAt(files: readonly ListedFile[], at: Moment, signal: AbortSignal): Promise<Scan> {
		const listed = new Map(files.map((file) => [file.path, file]));
		const next = new Map<string, TrackedFile>();
		let changed = false;
		let restless = false;
		const paths = new Set([...listed.keys(), ...this.#files.keys()]);
		for (const path of [...paths].sort(byCodeUnit)) {
			const known = this.#files.get(path);
			const file = known ?? new TrackedFile(path, this.#context);
			// oxlint-disable-next-line no-await-in-loop -- one after the other holds one text at a time
			const look = signal.aborted ? "same" : await file.look(listed.get(path), at, signal);
			restless ||= look === "restless";
			if (look !== "gone") next.set(path, file);
			// Some files are there for a moment only, before anyone has read them.
			const isGone = look === "gone" && file.state !== undefined;
			if (isGone) this.#context.log.info({ file: path }, "manifest is gone");
			changed ||= isGone || look === "changed";
		}
		this.#files = next;
		return { changed, restless, fresh: true };
	}

	/** @returns why this listing says nothing about what should be served. */
	#troubleWith(listing: PathListing): string | undefined {
		if (listing.state === "unreadable") return listing.problem;
		if (listing.state === "absent") return "is not there";
		const isEmptied = listing.isFolder && listing.files.length === 0 && this.#files.size > 0;
		// What is left when a file system is unmounted: an empty folder of the one below.
		if (isEmptied && listing.device !== this.#device) return "is empty and on another device";
		return undefined;
	}

	/** @returns whether it may be back at once: some tools replace a file by removing it first. */
	#isAway(trouble: string, at: Moment): boolean {
		this.#awaySinceMs ??= at.monotonicMs;
		const isKnown = this.#files.size > 0;
		if (isKnown && at.monotonicMs - this.#awaySinceMs < this.#context.settleMs) return true;
		const { path } = this;
		this.#failure.failed(isKnown ? `${trouble}; its last state stays in force` : trouble, { path });
		return false;
	}
}

function byCodeUnit(a: string, b: string): number {
	return a < b ? -1 : 1;
}
