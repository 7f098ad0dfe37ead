import type { Asked } from "./api-errors.ts";
import type { Resource } from "./resources.ts";

export interface ApiRequest {
	readonly verb: Asked["verb"];
	/** What it is about, for messages. */
	readonly resource: Pick<Resource, "plural" | "group" | "path">;
	readonly query: Readonly<Record<string, string>>;
	/** The headers of the answer must be there after this many milliseconds. */
	readonly headersMs: number;
}

/** An answer with status 200 whose body is still to be read. */
export interface ApiResponse {
	readonly asked: Asked;
	/** May end at any time with an error, which is always an ApiError. */
	readonly body: AsyncIterable<Uint8Array>;
	/** Ends the body. Harmless when it has ended. */
	cancel(): void;
}

/** The way to the API server, as the reflectors see it. */
export interface Transport {
	/** @throws {ApiError} for anything but an answer with status 200. */
	get(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse>;
}
