import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { describeError } from "../shared/errors.ts";
import type { RecurringFailure } from "../shared/recurring.ts";
import { refusalOfLocalRequest } from "./http-guard.ts";

export interface Exchange {
	readonly request: IncomingMessage;
	readonly response: ServerResponse;
	readonly query: URLSearchParams;
}

export interface Route {
	/** GET answers HEAD too. */
	readonly get?: (exchange: Exchange) => void | Promise<void>;
	readonly put?: (exchange: Exchange) => void | Promise<void>;
	/** Answered only to this host's own people, see http-guard.ts. */
	readonly localOnly?: boolean;
}

export type Routes = ReadonlyMap<string, Route>;

/** Makes the function that answers every request: by its route, or with the reason why not. */
export function createRouter(routes: Routes, failure: RecurringFailure): RequestListener {
	return (request, response) => {
		// A client that goes away while it is answered is nobody's fault.
		response.on("error", () => {});
		// Cannot reject: dispatch catches everything.
		void dispatch(routes, { request, response }, failure);
	};
}

async function dispatch(
	routes: Routes,
	{ request, response }: Omit<Exchange, "query">,
	failure: RecurringFailure,
): Promise<void> {
	try {
		const url = parseUrl(request.url);
		if (url === undefined) return sendText(response, 400, "bad request");
		if (hasTwoHosts(request)) return sendText(response, 400, "wanted one Host header, got more");
		const route = routes.get(url.pathname);
		if (route === undefined) return sendText(response, 404, "not found");
		const handle = handlerOf(route, request.method);
		if (handle === undefined) {
			response.setHeader("Allow", route.put === undefined ? "GET, HEAD" : "GET, HEAD, PUT");
			return sendText(response, 405, "method not allowed");
		}
		const refusal = route.localOnly === true ? refusalOfLocalRequest(request) : undefined;
		if (refusal !== undefined) return sendText(response, 403, refusal);
		await handle({ request, response, query: url.searchParams });
		failure.succeeded();
	} catch (error) {
		failure.failed(describeError(error));
		if (response.headersSent) response.destroy();
		else sendText(response, 500, "internal error");
	}
}

export function sendText(response: ServerResponse, status: number, text: string): void {
	send(response, { status, contentType: "text/plain; charset=utf-8", body: `${text}\n` });
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
	send(response, { status, contentType: "application/json", body: `${JSON.stringify(value)}\n` });
}

export function send(
	response: ServerResponse,
	answer: { readonly status: number; readonly contentType: string; readonly body: string },
): void {
	response.writeHead(answer.status, headersFor(answer.contentType)).end(answer.body);
}

export function headersFor(contentType: string): Record<string, string> {
	return {
		"Content-Type": contentType,
		"Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff",
	};
}

function handlerOf(route: Route, method: string | undefined): Route["get"] {
	if (method === "GET" || method === "HEAD") return route.get;
	return method === "PUT" ? route.put : undefined;
}

/** RFC 9112 3.2 wants 400; Node takes the first. Whoever stands in front may have judged the other. */
function hasTwoHosts({ headersDistinct }: IncomingMessage): boolean {
	return (headersDistinct["host"]?.length ?? 0) > 1;
}

function parseUrl(target: string | undefined): URL | undefined {
	return URL.parse(target ?? "", "http://localhost") ?? undefined;
}
