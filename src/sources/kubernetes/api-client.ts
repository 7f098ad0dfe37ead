import type { Dispatcher } from "undici";
import type { Log } from "../../shared/log.ts";
import { ApiError, type Asked, statusError } from "./api-errors.ts";
import { readBounded } from "./body.ts";
import type { ClusterAddress } from "./cluster-address.ts";
import { Connections, type ConnectionTiming } from "./connections.ts";
import type { Access, Credentials } from "./credentials.ts";
import { brokenError, reachError } from "./reach-errors.ts";
import type { ApiRequest, ApiResponse, Transport } from "./transport.ts";

export interface ApiClientOptions {
	readonly credentials: Credentials;
	readonly address: ClusterAddress;
	readonly log: Log;
	readonly timing: ConnectionTiming;
}

/** A Status object is some hundred bytes. */
const MAX_STATUS_BYTES = 64 * 1024;
const STATUS_MS = 10_000;

/**
 * Sends requests to the API server: credentials in, one JSON answer or one ApiError out.
 *
 * Redirects are not followed: they would carry the credentials to another server.
 */
export class ApiClient implements Transport {
	readonly #options: ApiClientOptions;
	readonly #connections: Connections;
	readonly #warned = new Set<string>();

	constructor(options: ApiClientOptions) {
		this.#options = options;
		this.#connections = new Connections(options.timing);
	}

	async get(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
		const access = await this.#options.credentials.current(signal);
		this.#warnOfClearText(access);
		this.#options.address.use(access.origin);
		const asked = toAsked(request, access);
		try {
			return await this.#send(request, access, asked, signal);
		} catch (error) {
			const known = reachError(error, this.#reach(asked, access));
			this.#draw(known, access);
			throw known;
		}
	}

	/** Resolves when no connection is open any more and no plugin runs; requests under way fail. */
	async close(): Promise<void> {
		await Promise.all([this.#connections.close(), this.#options.credentials.close()]);
	}

	async #send(
		request: ApiRequest,
		access: Access,
		asked: Asked,
		signal: AbortSignal,
	): Promise<ApiResponse> {
		const dispatcher = await this.#connections.for(access);
		signal.throwIfAborted();
		const abort = new AbortController();
		const onAbort = () => abort.abort();
		signal.addEventListener("abort", onAbort, { once: true });
		let isLate = false;
		const late = setTimeout(() => {
			isLate = true;
			abort.abort();
		}, request.headersMs);
		try {
			const answer = await dispatcher.request({
				method: "GET",
				origin: access.origin,
				path: `${asked.path}?${new URLSearchParams(request.query).toString()}`,
				headers: {
					accept: "application/json",
					"user-agent": "kube-userproxy",
					...access.headers,
				},
				signal: abort.signal,
			});
			// An error may come when nobody reads any more.
			answer.body.on("error", () => {});
			const end = () => {
				signal.removeEventListener("abort", onAbort);
				answer.body.destroy();
			};
			const response = {
				asked,
				body: translate(answer.body, asked, end),
				cancel: end,
			};
			if (answer.statusCode !== 200) {
				throw await refusal(response, answer.statusCode, answer.headers);
			}
			return response;
		} catch (error) {
			signal.removeEventListener("abort", onAbort);
			throw isLate ? lateError(asked, request.headersMs) : error;
		} finally {
			clearTimeout(late);
		}
	}

	#reach(asked: Asked, access: Access) {
		const isClusterIp = this.#options.address.isClusterIp(access.origin);
		return { asked, isClusterIp, connectMs: this.#options.timing.connectMs };
	}

	/** What a failure tells about credentials and connections. */
	#draw(error: ApiError, access: Access): void {
		if (error.status === 401 || error.code === "tls") {
			// A rotated token, certificate or CA: the files may hold the new one.
			this.#options.credentials.invalidate(access.generation);
		}
		// A server that takes requests and does not answer may be a connection that has died.
		if (error.code === "timeout") this.#connections.retire();
	}

	#warnOfClearText({ origin, headers, tls, from }: Access): void {
		if (tls.rejectUnauthorized === false && origin.startsWith("https:")) {
			this.#warnOnce("the API server's certificate is not verified", { server: origin, from });
		}
		if (!origin.startsWith("http:")) return;
		const text =
			"authorization" in headers
				? "credentials go to the API server in clear text"
				: "the API server is spoken to in clear text";
		this.#warnOnce(text, { server: origin, from });
	}

	#warnOnce(message: string, fields: { readonly server: string; readonly from: string }): void {
		if (this.#warned.has(message)) return;
		this.#warned.add(message);
		this.#options.log.warn(fields, message);
	}
}

/** The body with errors of ours, and its end told. */
async function* translate(
	body: AsyncIterable<Uint8Array>,
	asked: Asked,
	end: () => void,
): AsyncGenerator<Uint8Array, void, undefined> {
	try {
		yield* body;
		// undici takes the connection back only after this turn: the next watch, which is opened at once,
		// would get another one, and over HTTP/1.1 that is a new one each time.
		await new Promise((resolve) => setImmediate(resolve));
	} catch (error) {
		throw brokenError(error, asked);
	} finally {
		end();
	}
}

function toAsked({ verb, resource }: ApiRequest, access: Access): Asked {
	const { plural, group } = resource;
	const path = `${access.basePath}${resource.path}`;
	return { server: access.origin, verb, plural, group, path, credentials: access.from };
}

async function refusal(
	response: ApiResponse,
	status: number,
	headers: Dispatcher.ResponseData["headers"],
): Promise<ApiError> {
	const retryAfter = Number(headers["retry-after"]);
	const retryAfterMs = retryAfter > 0 ? retryAfter * 1_000 : undefined;
	return statusError(response.asked, status, await readStatus(response), retryAfterMs);
}

/** @returns undefined where the body is no JSON: the HTTP status says enough. */
async function readStatus(response: ApiResponse): Promise<unknown> {
	const chunks: Uint8Array[] = [];
	const bounds = { idleMs: () => STATUS_MS, totalMs: STATUS_MS, maxBytes: MAX_STATUS_BYTES };
	try {
		for await (const chunk of readBounded(response, bounds)) chunks.push(chunk);
		return JSON.parse(Buffer.concat(chunks).toString("utf8"));
	} catch {
		return undefined;
	}
}

function lateError(asked: Asked, headersMs: number): ApiError {
	return new ApiError(
		"timeout",
		`The API server at ${asked.server} takes "${asked.verb}" on "${asked.plural}" and does not answer within ${headersMs / 1_000} s`,
	);
}
