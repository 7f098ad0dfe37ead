import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { RecurringFailure } from "../../shared/recurring.ts";
import { describeProblems } from "./describe-problems.ts";
import { type FileState, nextFileState, unreadableFileState } from "./file-state.ts";
import { type ListedFile, readManifest } from "./manifest-files.ts";
import { type ParsedManifest, parseInSteps } from "./parse-manifest.ts";
import { type Moment, Rest } from "./rest.ts";

/** While it parses, others get their turn this often, in milliseconds. */
const TURN_MS = 10;

/** At most eight lines about one file in this time, in milliseconds. */
const LINES_INTERVAL_MS = 5_000;

export interface FileContext {
	readonly nodeName: string;
	/** How long a file must rest before it is read, in milliseconds. */
	readonly settleMs: number;
	readonly log: Log;
	readonly clock: Clock;
}

/** What came of one look: "restless" asks for another soon, "gone" for the file to be forgotten. */
export type Look = "same" | "changed" | "restless" | "gone";

/** One manifest and the last state of it that counts. */
export class TrackedFile {
	readonly path: string;
	readonly #context: FileContext;
	readonly #rest: Rest;
	readonly #failure: RecurringFailure;
	#state: FileState | undefined;

	constructor(path: string, context: FileContext) {
		const { log, clock, settleMs } = context;
		this.path = path;
		this.#context = context;
		this.#rest = new Rest(settleMs);
		this.#failure = new RecurringFailure({
			log,
			clock,
			level: "error",
			failing: "manifest is not good",
			recovered: "manifest has recovered",
			summaryMs: LINES_INTERVAL_MS,
		});
	}

	/** Undefined before it was read for the first time. */
	get state(): FileState | undefined {
		return this.#state;
	}

	/** Reads it at the next look, also when it did not change. */
	forget(): void {
		this.#rest.forget();
	}

	/** @param file as listed now; undefined when it is not there. */
	async look(file: ListedFile | undefined, at: Moment, signal: AbortSignal): Promise<Look> {
		const hasObjects = (this.#state?.objects.length ?? 0) > 0;
		const seen = this.#rest.see(file, hasObjects, at);
		if (seen !== "ready") return seen === "known" ? "same" : "restless";
		if (file === undefined) return "gone";
		return await this.#take(file, at, signal);
	}

	async #take(file: ListedFile, at: Moment, signal: AbortSignal): Promise<Look> {
		const read = file.state === "file" ? await readManifest(file.path, file.stamp) : file;
		if (read.state === "changed" && !this.#rest.isOverdue(at)) return "restless";
		let next: FileState;
		if (read.state === "changed") next = unreadableFileState(this.#state, "keeps changing");
		else if (read.state === "refused") next = unreadableFileState(this.#state, read.problem);
		else {
			const parsed = await this.#parse(read.text, signal);
			if (parsed === undefined) return "restless";
			this.#sayOtherKinds(parsed);
			next = nextFileState(this.#state, parsed);
		}
		this.#rest.taken();
		const before = this.#state?.objects ?? [];
		const changed = next.objects !== before && next.objects.length + before.length > 0;
		this.#state = next;
		this.#say(next);
		return changed ? "changed" : "same";
	}

	/** @returns undefined when the signal aborts meanwhile. */
	async #parse(text: string, signal: AbortSignal): Promise<ParsedManifest | undefined> {
		const { clock, nodeName } = this.#context;
		const steps = parseInSteps(text, nodeName);
		let turnMs = clock.monotonicMs();
		for (;;) {
			const step = steps.next();
			if (step.done === true) return step.value;
			if (clock.monotonicMs() - turnMs < TURN_MS) continue;
			// oxlint-disable-next-line no-await-in-loop -- this is the pause
			await nextTurn();
			if (signal.aborted) return undefined;
			turnMs = clock.monotonicMs();
		}
	}

	#say({ problems, isKept }: FileState): void {
		const { path: file } = this;
		if (problems.length === 0) this.#failure.succeeded({ file });
		else this.#failure.failed(describeProblems(problems), { file, lastStateKept: isKept });
	}

	#sayOtherKinds({ otherKinds }: ParsedManifest): void {
		for (const [kind, count] of otherKinds) {
			this.#context.log.debug({ file: this.path, kind, count }, "objects of another kind ignored");
		}
	}
}
