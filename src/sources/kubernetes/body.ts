import { ApiError } from "./api-errors.ts";
import type { ApiResponse } from "./transport.ts";

export interface BodyBounds {
	/** Longest time without a byte, in milliseconds; asked again at each byte. */
	readonly idleMs: () => number;
	/** Longest time for all of it, in milliseconds; undefined: no bound. */
	readonly totalMs?: number;
	readonly maxBytes?: number;
}

/**
 * The chunks of a body, with an end to every wait. Cancels the response however it is left.
 *
 * @throws {ApiError} "idle" when no byte came in time, "timeout" when the whole took too long,
 * "too-big" beyond the size, and what the transport says when the connection broke.
 */
export async function* readBounded(
	response: ApiResponse,
	bounds: BodyBounds,
): AsyncGenerator<Uint8Array, void, undefined> {
	let expired: ApiError | undefined;
	const expire = (error: ApiError) => {
		expired ??= error;
		response.cancel();
	};
	const startIdle = () => setTimeout(() => expire(idleError(response)), bounds.idleMs());
	let idle = startIdle();
	const total =
		bounds.totalMs === undefined
			? undefined
			: setTimeout(() => expire(slowError(response)), bounds.totalMs);
	let bytes = 0;
	try {
		for await (const chunk of response.body) {
			clearTimeout(idle);
			bytes += chunk.length;
			if (bytes > (bounds.maxBytes ?? Number.POSITIVE_INFINITY))
				throw tooBigError(response, bounds);
			yield chunk;
			idle = startIdle();
		}
	} catch (error) {
		throw expired ?? error;
	} finally {
		clearTimeout(idle);
		clearTimeout(total);
		response.cancel();
	}
	if (expired !== undefined) throw expired;
}

/** A whole body as JSON. @throws {ApiError} as {@link readBounded}, and "bad-answer". */
export async function readJson(response: ApiResponse, bounds: BodyBounds): Promise<unknown> {
	const chunks: Uint8Array[] = [];
	for await (const chunk of readBounded(response, bounds)) chunks.push(chunk);
	try {
		return JSON.parse(Buffer.concat(chunks).toString("utf8"));
	} catch (error) {
		// V8 quotes the text in its message: what the server sent is none of the log's business.
		if (error instanceof SyntaxError || error instanceof Error) throw notJsonError(response);
		throw error;
	}
}

export function notJsonError({ asked }: Pick<ApiResponse, "asked">): ApiError {
	return new ApiError(
		"bad-answer",
		`The API server at ${asked.server} answers "${asked.verb}" on "${asked.plural}" with something that is not its JSON: check that the address is that of a Kubernetes API server`,
	);
}

function idleError({ asked }: ApiResponse): ApiError {
	return new ApiError(
		"idle",
		`The API server at ${asked.server} stopped sending in the middle of its answer to "${asked.verb}" on "${asked.plural}"`,
	);
}

function slowError({ asked }: ApiResponse): ApiError {
	return new ApiError(
		"timeout",
		`The API server at ${asked.server} takes too long for its answer to "${asked.verb}" on "${asked.plural}"`,
	);
}

function tooBigError({ asked }: ApiResponse, bounds: BodyBounds): ApiError {
	return new ApiError(
		"too-big",
		`The API server at ${asked.server} answers "${asked.verb}" on "${asked.plural}" with more than ${bounds.maxBytes} bytes in one answer`,
	);
}
