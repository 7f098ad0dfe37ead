import {
	ApiError,
	type Asked,
	statusError,
} from "../../../../src/sources/kubernetes/api-errors.ts";
import type {
	ApiRequest,
	ApiResponse,
	Transport,
} from "../../../../src/sources/kubernetes/transport.ts";
import { answerTo, type Served } from "../../../kit/fake-api/answers.ts";
import { Database } from "../../../kit/fake-api/database.ts";
import type { SeenRequest } from "../../../kit/fake-api/faults.ts";
import { Watch } from "../../../kit/fake-api/watch.ts";

/** The fake API's database behind a transport without sockets: fast enough for thousands of runs. */
export class MemoryApi implements Transport {
	readonly database = new Database();
	readonly served: Served;
	readonly requests: ApiRequest[] = [];
	/** The next requests fail with these, in order. */
	readonly failures: ApiError[] = [];
	readonly #watches = new Map<Watch, Pipe>();

	constructor(served: Served = {}) {
		this.served = served;
	}

	get(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
		this.requests.push(request);
		const failure = this.failures.shift();
		if (failure !== undefined) return Promise.reject(failure);
		const { query, resource, verb } = request;
		const { path, plural } = resource;
		const seen: SeenRequest = {
			path,
			plural,
			verb,
			query,
			headers: {},
			connection: 1,
			httpVersion: "",
		};
		const answer = answerTo(seen, this.database, this.served);
		const asked = askedFor(request);
		if ("refusal" in answer) {
			const { code } = answer.refusal;
			return Promise.reject(statusError(asked, code, answer.refusal, undefined));
		}
		const pipe = new Pipe();
		signal.addEventListener("abort", () => pipe.fail(lost()), { once: true });
		const response = { asked, body: pipe.read(), cancel: () => pipe.fail(lost()) };
		if ("json" in answer) {
			pipe.write(JSON.stringify(answer.json));
			pipe.end();
			return Promise.resolve(response);
		}
		const watch = new Watch({
			database: this.database,
			plural,
			apiVersion: answer.watchOf,
			query,
			bookmarkMs: 1_000_000,
			ignoresStreams: this.served.streamingLists === "ignored",
			output: {
				write: (text) => pipe.write(text),
				end: () => this.#finish(watch, () => pipe.end()),
				destroy: () => this.#finish(watch, () => pipe.fail(lost())),
			},
		});
		this.#watches.set(watch, pipe);
		watch.start();
		return Promise.resolve(response);
	}

	get watches(): readonly Watch[] {
		return [...this.#watches.keys()];
	}

	close(): void {
		for (const watch of this.watches) watch.cut(false);
	}

	#finish(watch: Watch, how: () => void): void {
		this.#watches.delete(watch);
		how();
	}
}

function askedFor({ verb, resource }: ApiRequest): Asked {
	const { plural, group, path } = resource;
	return { server: "https://api", verb, plural, group, path, credentials: "a test" };
}

export function lost(): ApiError {
	return new ApiError("lost", "The connection to the API server broke");
}

/** Bytes from one side to the other; what is written before a failure arrives before it. */
class Pipe {
	readonly #chunks: Uint8Array[] = [];
	#over: { readonly error: ApiError | undefined } | undefined;
	#wake: () => void = () => {};

	write(text: string): void {
		const bytes = Buffer.from(text);
		// In two, so that lines do not come as chunks.
		const middle = bytes.length >> 1;
		this.#chunks.push(bytes.subarray(0, middle), bytes.subarray(middle));
		this.#wake();
	}

	end(): void {
		this.#over ??= { error: undefined };
		this.#wake();
	}

	fail(error: ApiError): void {
		this.#over ??= { error };
		this.#wake();
	}

	async *read(): AsyncGenerator<Uint8Array, void, undefined> {
		for (;;) {
			const chunk = this.#chunks.shift();
			if (chunk !== undefined) yield chunk;
			else if (this.#over?.error !== undefined) throw this.#over.error;
			else if (this.#over !== undefined) return;
			else {
				// oxlint-disable-next-line no-await-in-loop -- this is the wait
				await new Promise<void>((resolve) => {
					this.#wake = resolve;
				});
			}
		}
	}
}
