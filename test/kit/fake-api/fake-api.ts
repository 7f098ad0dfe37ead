import {
	createServer as createHttpServer,
	type IncomingMessage,
	type ServerResponse,
} from "node:http";
import { createSecureServer } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { answerTo, type Served } from "./answers.ts";
import { Database } from "./database.ts";
import { type Fault, FaultPlan, type FaultRule, type SeenRequest } from "./faults.ts";
import { type ApiObject, KINDS } from "./objects.ts";
import { breakOff, rawSocketOf, sendJson, sendStatus } from "./respond.ts";
import { Watch } from "./watch.ts";

export interface FakeApiOptions extends Served {
	readonly host?: string;
	/** Default: any free one. */
	readonly port?: number;
	/** PEM; without it plain HTTP. */
	readonly tls?: { readonly key: string; readonly cert: string };
	/** With tls: PEM of a CA that must have signed each client's certificate. */
	readonly clientCa?: string;
	/** With tls: also offers HTTP/2, which clients prefer. */
	readonly http2?: boolean;
	readonly bookmarkMs?: number;
}

const MAX_SEEN = 10_000;

/**
 * An HTTP server that lists and watches like an API server, driven by a test: objects are put and
 * deleted, watches cut, requests failed. Stops and starts again on the same port with the same objects.
 */
export class FakeApi {
	readonly database = new Database();
	readonly faults = new FaultPlan();
	/** Every request, oldest first; the newest ten thousand. */
	readonly requests: SeenRequest[] = [];
	/** May be changed at any time, but for the address, TLS and HTTP/2. */
	options: FakeApiOptions;
	readonly #watches = new Set<Watch>();
	readonly #sockets = new Map<Socket, number>();
	#server: Server | undefined;
	#port = 0;
	#connections = 0;
	#silent = false;

	constructor(options: FakeApiOptions = {}) {
		this.options = options;
	}

	get port(): number {
		return this.#port;
	}

	get url(): string {
		const scheme = this.options.tls === undefined ? "http" : "https";
		return `${scheme}://${this.options.host ?? "127.0.0.1"}:${this.#port}`;
	}

	/** TCP connections accepted so far. */
	get connections(): number {
		return this.#connections;
	}

	get openWatches(): readonly Watch[] {
		return [...this.#watches];
	}

	async start(): Promise<void> {
		const server = this.#makeServer();
		this.#server = server;
		server.on("connection", (socket: Socket) => {
			socket.on("error", () => {});
			this.#connections += 1;
			this.#sockets.set(socket, this.#connections);
			socket.on("close", () => this.#sockets.delete(socket));
		});
		const { promise, resolve, reject } = Promise.withResolvers<void>();
		server.once("error", reject);
		const port = this.#port === 0 ? (this.options.port ?? 0) : this.#port;
		server.listen(port, this.options.host ?? "127.0.0.1", resolve);
		await promise;
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server has no other
		this.#port = (server.address() as AddressInfo).port;
	}

	/** Every connection is reset and nobody listens; may be started again. */
	async stop(): Promise<void> {
		for (const watch of this.#watches) watch.close();
		this.#watches.clear();
		const server = this.#server;
		this.#server = undefined;
		const closed = new Promise((resolve) => server?.close(resolve));
		for (const socket of this.#sockets.keys()) socket.resetAndDestroy();
		if (server !== undefined) await closed;
	}

	put(object: ApiObject): ApiObject {
		return this.database.put(object);
	}

	delete(kind: string, namespace: string, name: string): void {
		this.database.delete(kind, namespace, name);
	}

	/** The next request that fits is answered so. @returns takes it back. */
	failNext(rule: FaultRule): () => void {
		return this.faults.add(rule);
	}

	/** Breaks the watches of this kind, or all. */
	cutWatches(plural?: string, reset = true): void {
		for (const watch of this.#ofKind(plural)) watch.cut(reset);
	}

	/** Ends the watches of this kind, or all, in good order. */
	endWatches(plural?: string): void {
		for (const watch of this.#ofKind(plural)) watch.end();
	}

	/** Half of an event's line, then a cut: the object itself is in the database. */
	cutInLine(object: ApiObject): void {
		const stop = this.database.listen((change) => {
			for (const watch of this.#ofKind(change.plural)) {
				const line = JSON.stringify({ type: "ADDED", object: change.after });
				watch.silence();
				// Through another door than the silent one.
				watch.halfLine(line.slice(0, line.length / 2));
			}
		});
		this.put(object);
		stop();
	}

	/** No byte more on open watches, no answer to new requests, all connections open. */
	silence(): void {
		this.#silent = true;
		for (const watch of this.#watches) watch.silence();
	}

	speak(): void {
		this.#silent = false;
	}

	#ofKind(plural: string | undefined): readonly Watch[] {
		return [...this.#watches].filter((watch) => plural === undefined || watch.plural === plural);
	}

	#makeServer(): Server {
		const { http2, clientCa, tls: own } = this.options;
		const clients = clientCa === undefined ? {} : { ca: clientCa, requestCert: true };
		const tls = own === undefined ? undefined : { ...own, ...clients };
		const handle = (request: IncomingMessage, response: ServerResponse) =>
			this.#handle(request, response);
		if (tls === undefined) return createHttpServer(handle);
		if (http2 !== true) return createHttpsServer(tls, handle);
		const server = createSecureServer({ ...tls, allowHTTP1: true });
		server.on("sessionError", () => {});
		server.on("request", (request: unknown, response: unknown) => {
			// HTTP/2's own request and response are made to be used like HTTP/1.1's.
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
			handle(request as IncomingMessage, response as ServerResponse);
		});
		return server;
	}

	#handle(request: IncomingMessage, response: ServerResponse): void {
		request.on("error", () => {});
		response.on("error", () => {});
		const seen = this.#see(request);
		if (this.#silent) return;
		const fault = this.faults.next(seen);
		if (fault === undefined) {
			this.#answer(seen, response);
			return;
		}
		if (typeof fault === "object" && "delayMs" in fault) {
			setTimeout(() => this.#answer(seen, response), fault.delayMs);
			return;
		}
		this.#fail(fault, request, response);
	}

	#see(request: IncomingMessage): SeenRequest {
		const url = new URL(request.url ?? "/", "http://fake");
		const query = Object.fromEntries(url.searchParams);
		const plural = url.pathname.split("/").at(-1) ?? "";
		const isWatch = query["watch"] === "true" || query["watch"] === "1";
		const isList = plural in KINDS;
		const seen: SeenRequest = {
			path: url.pathname,
			plural,
			verb: isWatch ? "watch" : isList ? "list" : "get",
			query,
			headers: request.headers,
			connection: this.#sockets.get(rawSocketOf(request)) ?? 0,
			httpVersion: request.httpVersion,
		};
		this.requests.push(seen);
		if (this.requests.length > MAX_SEEN) this.requests.shift();
		return seen;
	}

	#answer(seen: SeenRequest, response: ServerResponse): void {
		const answer = answerTo(seen, this.database, this.options);
		if ("refusal" in answer) {
			const { code, reason, message } = answer.refusal;
			sendStatus(response, code, reason, message);
		} else if ("json" in answer) {
			sendJson(response, 200, answer.json);
		} else {
			this.#watch(seen, answer.watchOf, response);
		}
	}

	#watch({ plural, query }: SeenRequest, apiVersion: string, response: ServerResponse): void {
		response.writeHead(200, { "content-type": "application/json" });
		response.flushHeaders();
		const watch = new Watch({
			database: this.database,
			plural,
			apiVersion,
			query,
			bookmarkMs: this.options.bookmarkMs ?? 60_000,
			ignoresStreams: this.options.streamingLists === "ignored",
			output: {
				write: (text) => void response.write(text),
				end: () => void response.end(),
				destroy: (reset) => breakOff(response, reset),
			},
		});
		this.#watches.add(watch);
		response.on("close", () => {
			watch.close();
			this.#watches.delete(watch);
		});
		watch.start();
	}

	#fail(
		fault: Exclude<Fault, { delayMs: number }>,
		request: IncomingMessage,
		response: ServerResponse,
	): void {
		if (fault === "hang") return;
		if (fault === "reset") {
			rawSocketOf(request).resetAndDestroy();
			return;
		}
		if (typeof fault === "object") {
			const { status, reason = "", message = "", headers, body, cause } = fault;
			if (body === undefined) sendStatus(response, status, reason, message, { headers, cause });
			else response.writeHead(status, { "content-type": "text/html", ...headers }).end(body);
			return;
		}
		response.writeHead(200, { "content-type": "application/json" });
		response.flushHeaders();
		if (fault === "empty") response.end();
		if (fault === "endless-line") response.write(`{"type":"ADDED","x":"${"x".repeat(100_000)}`);
	}
}

export async function startFakeApi(options: FakeApiOptions = {}): Promise<FakeApi> {
	const api = new FakeApi(options);
	await api.start();
	return api;
}
