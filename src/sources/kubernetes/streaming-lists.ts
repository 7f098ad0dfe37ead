import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import type { ApiError } from "./api-errors.ts";

export interface StreamingListsOptions {
	readonly clock: Clock;
	readonly log: Log;
	/** How long a server that has failed is asked for pages only, in milliseconds. */
	readonly retryMs: number;
}

/**
 * Whether the server is to be asked for streaming lists. Shared by the reflectors of a source: what
 * one of them learns holds for all.
 *
 * A server that cannot do it is spared for a while and not for ever: servers are upgraded. Lists are
 * rare, and asking in vain costs one request or a few seconds, with the last state in force.
 */
export class StreamingLists {
	readonly #options: StreamingListsOptions;
	#retryAtMs = Number.NEGATIVE_INFINITY;
	#said = false;

	constructor(options: StreamingListsOptions) {
		this.#options = options;
	}

	mayTry(): boolean {
		return this.#options.clock.monotonicMs() >= this.#retryAtMs;
	}

	/** A list came to its end. */
	worked(): void {
		this.#said = false;
	}

	/** @returns whether this failure says that the server cannot do it; it is not asked again then. */
	learn(error: ApiError): boolean {
		if (!refusesStreaming(error)) return false;
		const { clock, log, retryMs } = this.#options;
		this.#retryAtMs = clock.monotonicMs() + retryMs;
		const reason = error.message;
		if (error.code === "status") {
			// What every server before Kubernetes 1.32 says.
			log.debug({ reason }, "server has no streaming lists, reading lists in pages");
		} else if (!this.#said) {
			this.#said = true;
			log.warn({ reason }, "streaming lists do not work here, reading lists in pages");
		}
		return true;
	}
}

/** 4xx that say "I do not know this kind of request", and servers that ignore what they do not know. */
function refusesStreaming({ code, status = 0 }: ApiError): boolean {
	if (["bad-answer", "timeout", "idle"].includes(code)) return true;
	return status >= 400 && status < 500 && ![401, 403, 404, 408, 409, 410, 429].includes(status);
}
