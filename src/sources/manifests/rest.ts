import type { ListedFile } from "./manifest-files.ts";

/** A file that never rests this long is read as it is. In milliseconds; a guess. */
const MAX_RESTLESS_MS = 10_000;

/**
 * An empty or absent file must rest this many times longer: it takes Services away, and is often
 * only the first half of a replacement.
 */
const EMPTY_FACTOR = 4;

/** Both clocks at the time of one look at the files, in milliseconds. */
export interface Moment {
	readonly monotonicMs: number;
	readonly wallMs: number;
}

/**
 * When a file may be read: once its size and times have rested for a while, so that nobody is in the
 * middle of writing it. Pure: it is told what was seen and when.
 */
export class Rest {
	readonly #settleMs: number;
	#key: string | undefined;
	#sinceMs = 0;
	#restlessSinceMs = 0;
	#takenKey: string | undefined;
	#isForgotten = false;

	/** @param settleMs how long a file must rest. */
	constructor(settleMs: number) {
		this.#settleMs = settleMs;
	}

	/**
	 * @param file undefined when it is not there.
	 * @param hasObjects whether an empty or absent file would take something away.
	 * @returns "known" when it was taken as it is, "restless" when it is to be looked at again soon.
	 */
	see(
		file: ListedFile | undefined,
		hasObjects: boolean,
		at: Moment,
	): "known" | "restless" | "ready" {
		const key = keyOf(file);
		if (key === this.#takenKey) {
			this.#key = key;
			return this.#isForgotten ? "ready" : "known";
		}
		if (key !== this.#key) {
			if (this.#key === this.#takenKey) this.#restlessSinceMs = at.monotonicMs;
			this.#key = key;
			this.#sinceMs = at.monotonicMs;
		}
		return this.#isRested(file, hasObjects, at) ? "ready" : "restless";
	}

	/** The file was taken as last seen. */
	taken(): void {
		this.#takenKey = this.#key;
		this.#isForgotten = false;
	}

	/** It is to be taken again, also when it did not change. */
	forget(): void {
		this.#isForgotten = true;
	}

	/** True when it changes again and again for so long that nobody can wait for it to rest. */
	isOverdue(at: Moment): boolean {
		return at.monotonicMs - this.#restlessSinceMs >= MAX_RESTLESS_MS;
	}

	#isRested(file: ListedFile | undefined, hasObjects: boolean, at: Moment): boolean {
		const isEmpty = file?.state !== "file" || file.stamp.bytes === 0;
		const neededMs = isEmpty && hasObjects ? this.#settleMs * EMPTY_FACTOR : this.#settleMs;
		if (at.monotonicMs - this.#sinceMs >= neededMs) return true;
		if (this.isOverdue(at)) return true;
		// Seen for the first time, it may have rested for long; but clocks of file servers differ.
		return file?.state === "file" && !isEmpty && at.wallMs - file.stamp.modifiedMs >= neededMs;
	}
}

function keyOf(file: ListedFile | undefined): string {
	if (file === undefined) return "absent";
	return file.state === "file" ? file.stamp.key : file.problem;
}
