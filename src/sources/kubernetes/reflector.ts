import type { Clock } from "../../shared/clock.ts";
import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { ApiError, type Asked } from "./api-errors.ts";
import { followWatch } from "./follow-watch.ts";
import type { ReflectorLimits } from "./limits.ts";
import { readList } from "./list.ts";
import type { ObjectStore, Reading } from "./object-store.ts";
import { Pace, type Sleep } from "./pace.ts";
import type { ProblemSlot } from "./problems.ts";
import { type Resource, selectorsOf } from "./resources.ts";
import type { StreamingLists } from "./streaming-lists.ts";
import type { ApiResponse, Transport } from "./transport.ts";
import { WatchSession } from "./watch-session.ts";

/** A collection, and how its objects are read. */
export interface Choice<T> {
	readonly resource: Resource;
	readonly reading: Reading<T>;
}

export interface ReflectorOptions<T> {
	/**
	 * Asked at the start, and again with the last choice when the server says that it does not serve
	 * that.
	 */
	choose(refused: Resource | undefined, signal: AbortSignal): Promise<Choice<T>> | Choice<T>;
	readonly store: ObjectStore<T>;
	readonly transport: Transport;
	readonly streaming: StreamingLists;
	readonly problems: ProblemSlot;
	/** Called after each batch of changes, at the first complete list and the first failure. Must not throw. */
	readonly onChange: () => void;
	readonly limits: ReflectorLimits;
	readonly clock: Clock;
	/** Uniform in [0, 1). */
	readonly random: () => number;
	readonly log: Log;
	readonly sleep?: Sleep | undefined;
}

/**
 * Keeps a store equal to one collection of the API, whatever goes wrong, by client-go's rules.
 *
 *              ┌──────────── 410, version too large, N empty watches ───────────┐
 *              ▼                                                                 │
 *     streaming list ──(initial-events-end)──────────────────────► watch ──(ends, cut,
 *         │ refused                                                 ▲  ▲    silent, 429)──┐
 *         ▼                                                         │  └──────────────────┘
 *     paged list ──(complete)───────────────────────────────────────┘   same version
 *
 * A list takes the place of the state only when it is complete. Between any two requests that failed
 * there is a wait (0.8 s to 30 s, doubled, with jitter, from the start again after two calm minutes).
 *
 * Silence: a peer that is gone is noticed by TCP keepalive (25 s) or HTTP/2 pings (30 s). A peer that
 * is there and sends nothing on a watch is told from a quiet cluster by the idle bound (57 s): the
 * watch is opened again from the same version. API servers send a bookmark only each 60 s, but also
 * two seconds before a watch's end. So the watches after such a cut ask for an early end: a quiet
 * watch that is well is cut no more, and its version moves on. docs/decisions/0031 weighs the cost.
 */
export class Reflector<T> {
	readonly #options: ReflectorOptions<T>;
	readonly #pace: Pace;
	#choice: Choice<T> | undefined;
	#refused: Resource | undefined;
	/** Where the next watch begins; undefined: the list has to be read first. */
	#watchFrom: string | undefined;
	/** The newest version seen, for a list that must not go back in time; undefined: none, or not served any more. */
	#lastVersion: string | undefined;
	#wantsNewest = false;
	/** Whether the last request was for a streaming list. */
	#streamed = false;
	#streamFailures = 0;
	#failures = 0;
	#shortWatches = 0;
	/** Whether watches are to be short, so that silence means that something is wrong. */
	#quiet = false;
	#freshAtMs: number | undefined;
	#synced = false;
	#tried = false;

	constructor(options: ReflectorOptions<T>) {
		const { limits, clock, random, sleep } = options;
		this.#options = options;
		this.#pace = new Pace(limits, clock, random, sleep);
	}

	/** True once a first complete list is in the store. */
	get isSynced(): boolean {
		return this.#synced;
	}

	/** True once the first attempt has come to an end, good or bad. */
	get hasTried(): boolean {
		return this.#tried;
	}

	/** When the store was last known to be current, in milliseconds since the epoch. */
	get freshAtMs(): number | undefined {
		return this.#freshAtMs;
	}

	/** Runs until the abort; never rejects. */
	async run(signal: AbortSignal): Promise<void> {
		while (!signal.aborted) {
			try {
				// oxlint-disable-next-line no-await-in-loop -- the loop is the state machine
				if ((await this.#step(signal)) === "hasty") await this.#pace.wait(0, signal);
			} catch (error) {
				if (signal.aborted) return;
				// oxlint-disable-next-line no-await-in-loop -- as above
				if (this.#learn(error) === "wait") await this.#pace.wait(askedWait(error), signal);
			}
		}
	}

	/** One list, or one watch from its beginning to its end. */
	async #step(signal: AbortSignal): Promise<"calm" | "hasty"> {
		if (this.#choice === undefined) {
			this.#choice = await this.#options.choose(this.#refused, signal);
			this.#refused = undefined;
			// Versions of one collection mean nothing in another one.
			this.#lastVersion = undefined;
		}
		const { streaming } = this.#options;
		const lists = this.#watchFrom === undefined;
		this.#streamed = lists && streaming.mayTry() && this.#streamFailures < 2;
		if (this.#watchFrom !== undefined) return this.#watch(this.#choice, this.#watchFrom, signal);
		if (this.#streamed) return this.#streamList(this.#choice, signal);
		await this.#pageList(this.#choice, signal);
		return "calm";
	}

	async #pageList({ resource, reading }: Choice<T>, signal: AbortSignal): Promise<void> {
		const { transport, limits, store } = this.#options;
		const resourceVersion = this.#wantsNewest ? "" : (this.#lastVersion ?? "0");
		const complete = await readList({ transport, resource, resourceVersion, limits, signal }, () =>
			store.beginList(reading),
		);
		const changed = complete.list.commit();
		this.#listed(complete.resourceVersion, changed);
	}

	async #streamList(choice: Choice<T>, signal: AbortSignal): Promise<"calm" | "hasty"> {
		const { store } = this.#options;
		const version = this.#wantsNewest ? undefined : this.#lastVersion;
		const query: Record<string, string> = {
			sendInitialEvents: "true",
			resourceVersionMatch: "NotOlderThan",
			...(version === undefined ? {} : { resourceVersion: version }),
		};
		const initial = store.beginList(choice.reading);
		let session: WatchSession | undefined;
		try {
			const headersMs = this.#options.limits.streamIdleMs;
			const response = await this.#openWatch(choice, query, headersMs, signal);
			const { asked } = response;
			const { resource } = choice;
			session = new WatchSession({ asked, resource, sink: store, initial, resourceVersion: "" });
			return await this.#follow(response, session);
		} catch (error) {
			if (session?.isCurrent !== true) this.#streamFailures += 1;
			throw error;
		}
	}

	async #watch(choice: Choice<T>, from: string, signal: AbortSignal): Promise<"calm" | "hasty"> {
		const headersMs = this.#options.limits.watchHeadersMs;
		const response = await this.#openWatch(choice, { resourceVersion: from }, headersMs, signal);
		const session = new WatchSession({
			asked: response.asked,
			resource: choice.resource,
			sink: this.#options.store,
			initial: undefined,
			resourceVersion: from,
		});
		this.#freshAtMs = this.#options.clock.wallMs();
		return this.#follow(response, session);
	}

	#openWatch(
		{ resource }: Choice<T>,
		extra: Readonly<Record<string, string>>,
		headersMs: number,
		signal: AbortSignal,
	): Promise<ApiResponse> {
		const { transport, limits, random } = this.#options;
		// A list takes as long as it takes.
		const isShort = this.#quiet && !this.#streamed;
		const [shortest, longest] = isShort ? limits.quietWatchTimeoutMs : limits.watchTimeoutMs;
		const timeoutMs = shortest + random() * (longest - shortest);
		const query = {
			...selectorsOf(resource),
			...extra,
			watch: "true",
			allowWatchBookmarks: "true",
			timeoutSeconds: `${Math.max(1, Math.round(timeoutMs / 1_000))}`,
		};
		return transport.get({ verb: "watch", resource, query, headersMs }, signal);
	}

	async #follow(response: ApiResponse, session: WatchSession): Promise<"calm" | "hasty"> {
		const { limits, clock } = this.#options;
		const startedMs = clock.monotonicMs();
		// A watch that holds is healthy, also when nothing happens in the cluster.
		const holds = setTimeout(() => {
			if (session.isCurrent) this.#healthy();
		}, limits.shortWatchMs);
		const onProgress = () => this.#absorb(session);
		let end: "ended" | "silent";
		try {
			end = await followWatch({ response, session, limits, clock, onProgress });
		} finally {
			clearTimeout(holds);
		}
		const livedMs = clock.monotonicMs() - startedMs;
		if (end === "silent") this.#quiet = true;
		else if (session.changeCount >= limits.busyWatchChanges) this.#quiet = false;
		if (livedMs >= limits.shortWatchMs || end === "silent") {
			this.#shortWatches = 0;
			return "calm";
		}
		if (session.eventCount === 0) throw this.#endedAtOnce(response.asked);
		// Ends that come with events are no failure, but must not make us spin either.
		return "hasty";
	}

	/** Takes over what a watch's session has learned. */
	#absorb(session: WatchSession): void {
		const changed = session.takeChanged();
		if (!session.isCurrent) return;
		if (this.#watchFrom === undefined) {
			this.#options.streaming.worked();
			this.#listed(session.resourceVersion, changed);
		} else {
			this.#freshAtMs = this.#options.clock.wallMs();
			this.#setVersion(session.resourceVersion);
			if (changed) this.#options.onChange();
		}
		if (session.eventCount > 0) this.#healthy();
	}

	#listed(resourceVersion: string, changed: boolean): void {
		const first = !this.#synced;
		this.#synced = true;
		this.#tried = true;
		this.#wantsNewest = false;
		this.#freshAtMs = this.#options.clock.wallMs();
		this.#setVersion(resourceVersion);
		if (first || changed) this.#options.onChange();
	}

	#setVersion(resourceVersion: string): void {
		this.#watchFrom = resourceVersion;
		if (resourceVersion !== "") this.#lastVersion = resourceVersion;
	}

	#healthy(): void {
		this.#failures = 0;
		this.#streamFailures = 0;
		this.#shortWatches = 0;
		this.#options.problems.clear();
	}

	#endedAtOnce({ server, plural }: Asked): ApiError {
		this.#shortWatches += 1;
		if (this.#shortWatches >= this.#options.limits.shortWatches) {
			// Seen on a managed service: a watch from a version that is too old ends without a word
			// (kubernetes/kubernetes#137089).
			this.#shortWatches = 0;
			this.#relistNewest();
		}
		const message = `The API server at ${server} ends each watch of ${plural} at once`;
		return new ApiError("ended-at-once", message);
	}

	#relistNewest(): void {
		this.#watchFrom = undefined;
		this.#wantsNewest = true;
	}

	/** Draws from a failure what the next request has to be; says it where it is not the first small one. */
	#learn(error: unknown): "wait" | "go on" {
		if (error instanceof ApiError) {
			if (this.#adapt(error)) return "go on";
			this.#decideNext(error);
		}
		this.#failures += 1;
		const { problems, log, onChange } = this.#options;
		if (!this.#tried) {
			this.#tried = true;
			onChange();
		}
		log.debug({ reason: describeError(error), failures: this.#failures }, "request failed");
		if (this.#failures > 1 || !isOrdinary(error)) problems.report(error);
		return "wait";
	}

	/** Leaves out what this server refuses. @returns whether the request can be made anew at once. */
	#adapt(error: ApiError): boolean {
		const choice = this.#choice;
		const { log } = this.#options;
		const streamed = this.#streamed && this.#watchFrom === undefined;
		const aboutField = /field (selector|label)|spec\.clusterIP/.test(error.serverMessage);
		const hasField =
			choice?.resource.fieldSelectorOptional === true &&
			choice.resource.fieldSelector !== undefined;
		if (error.status === 400 && hasField && (aboutField || !streamed)) {
			log.info(
				{ kind: choice.resource.kind },
				"server knows no such field selector, doing without",
			);
			const resource = { ...choice.resource, fieldSelector: undefined };
			this.#choice = { ...choice, resource };
			this.#watchFrom = undefined;
			this.#streamFailures = 0;
			return true;
		}
		return streamed && this.#options.streaming.learn(error);
	}

	#decideNext(error: ApiError): void {
		// After what was of another kind, a watch from the same version would bring it again.
		const relists = ["expired", "version-too-large", "wrong-kind"];
		if (relists.includes(error.code)) this.#relistNewest();
		if (error.code === "too-big" && this.#watchFrom === undefined) this.#wantsNewest = true;
		if (error.code !== "status") return;
		const status = error.status ?? 0;
		if (status === 404) {
			this.#refused = this.#choice?.resource;
			this.#choice = undefined;
			this.#watchFrom = undefined;
		} else if (status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status)) {
			this.#watchFrom = undefined;
		}
	}
}

function askedWait(error: unknown): number {
	return error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
}

/** What happens to every watch now and then, and is over with the next request. */
function isOrdinary(error: unknown): boolean {
	if (!(error instanceof ApiError)) return false;
	return ["lost", "expired", "version-too-large", "ended-at-once"].includes(error.code);
}
