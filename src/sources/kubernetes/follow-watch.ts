import type { Clock } from "../../shared/clock.ts";
import { ApiError } from "./api-errors.ts";
import { notJsonError, readBounded } from "./body.ts";
import { JsonLines } from "./json-lines.ts";
import type { ReflectorLimits } from "./limits.ts";
import { ListPace } from "./list-pace.ts";
import type { ApiResponse } from "./transport.ts";
import type { WatchSession } from "./watch-session.ts";

export interface FollowOptions {
	readonly response: ApiResponse;
	readonly session: WatchSession;
	readonly limits: ReflectorLimits;
	readonly clock: Clock;
	/** Called after each chunk's events were taken in, also when one of them ended the watch. */
	readonly onProgress: () => void;
}

/**
 * Feeds a watch's bytes to its session until the server ends it ("ended") or it has been silent for
 * too long ("silent").
 *
 * @throws {ApiError} when it broke, when what came is no watch, at an ERROR event, and when the
 * initial list does not come to its end; events before that have been taken in.
 */
export async function followWatch(options: FollowOptions): Promise<"ended" | "silent"> {
	const { response, session, limits, clock, onProgress } = options;
	const pace = new ListPace(limits, clock.monotonicMs());
	const lines = new JsonLines(limits.maxEventBytes);
	const idleMs = () => (session.isCurrent ? limits.watchIdleMs : limits.streamIdleMs);
	try {
		for await (const chunk of readBounded(response, { idleMs })) {
			try {
				takeAll(lines, chunk, options);
			} finally {
				onProgress();
			}
			const isLate = !session.isCurrent && pace.isTooSlow(clock.monotonicMs(), session.listedCount);
			if (isLate) throw endlessListError(response);
		}
	} catch (error) {
		const isSilent = error instanceof ApiError && error.code === "idle" && session.isCurrent;
		if (isSilent) return "silent";
		throw error;
	}
	if (!session.isCurrent) throw endlessListError(response);
	return "ended";
}

function takeAll(lines: JsonLines, chunk: Uint8Array, { response, session }: FollowOptions): void {
	const events = lines.push(chunk);
	for (;;) {
		const next = nextEvent(events, response);
		if (next.done === true) return;
		session.take(next.value);
	}
}

function nextEvent(
	events: Generator<unknown, void, undefined>,
	response: ApiResponse,
): IteratorResult<unknown, void> {
	try {
		return events.next();
	} catch (error) {
		if (error instanceof RangeError) {
			const { server, plural } = response.asked;
			const message = `The API server at ${server} sends an event of ${plural} that is too big to be an object`;
			throw new ApiError("too-big", message);
		}
		throw notJsonError(response);
	}
}

function endlessListError({ asked }: ApiResponse): ApiError {
	return new ApiError(
		"bad-answer",
		`The API server at ${asked.server} does not bring its streaming list of ${asked.plural} to an end`,
	);
}
