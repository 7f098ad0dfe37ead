import type { IncomingMessage } from "node:http";
import { parseIpAddress } from "../services/address.ts";
import type { ConnectionRecord } from "../services/connection-record.ts";
import {
	CONNECTION_EVENTS_PATH,
	CONNECTIONS_PATH,
	type ConnectionReport,
	type ConnectionsReport,
	RECENT_CONNECTIONS_PATH,
	type RecentConnectionsReport,
	STATUS_PATH,
	type StatusReport,
} from "../services/status.ts";
import { streamConnectionEvents } from "./connection-events.ts";
import type { ConnectionFeed } from "./connection-feed.ts";
import { type ConnectionFilter, matchesFilter } from "./connection-filter.ts";
import { CONNECTION_LOG_MODES, type ConnectionLog } from "./connection-log.ts";
import { type Exchange, headersFor, type Route, sendJson, sendText } from "./http-router.ts";

/** Of the connection log's mode: read with GET, set with PUT `{"mode":"errors"}`. */
export const CONNECTIONS_LOG_PATH = "/connections-log";

/** Connections in one answer; some 2 MB. */
const MAX_LISTED = 10_000;

const MAX_BODY_BYTES = 1_024;

export interface StatusRoutesOptions {
	readonly status: () => Promise<StatusReport>;
	/** Oldest first. */
	readonly connections: () => Promise<readonly ConnectionReport[]>;
	/** The last that have ended, oldest first. */
	readonly recent: () => Promise<readonly ConnectionRecord[]>;
	readonly feed: ConnectionFeed;
	readonly connectionLog: ConnectionLog;
	/** Ends every endless answer. */
	readonly signal: AbortSignal;
}

/** What `kube-userproxy status` and `kube-userproxy connections` ask for; only over loopback. */
export function statusRoutes(options: StatusRoutesOptions): readonly (readonly [string, Route])[] {
	const { status, connectionLog } = options;
	return [
		[
			STATUS_PATH,
			{ localOnly: true, get: async ({ response }) => sendJson(response, 200, await status()) },
		],
		[CONNECTIONS_PATH, connectionsRoute(options)],
		[RECENT_CONNECTIONS_PATH, recentRoute(options)],
		[CONNECTION_EVENTS_PATH, eventsRoute(options)],
		[
			CONNECTIONS_LOG_PATH,
			{
				localOnly: true,
				get: ({ response }) => sendJson(response, 200, { mode: connectionLog.mode }),
				put: (exchange) => setConnectionLog(exchange, connectionLog),
			},
		],
	];
}

function connectionsRoute({ connections }: StatusRoutesOptions): Route {
	return filtered(async ({ response }, filter) => {
		const matching = (await connections()).filter((connection) =>
			matchesFilter(connection, filter),
		);
		const report: ConnectionsReport = {
			connections: matching.slice(-MAX_LISTED),
			total: matching.length,
		};
		sendJson(response, 200, report);
	});
}

function recentRoute({ recent }: StatusRoutesOptions): Route {
	return filtered(async ({ response }, filter) => {
		const report: RecentConnectionsReport = {
			records: (await recent()).filter((record) => matchesFilter(record, filter)),
		};
		sendJson(response, 200, report);
	});
}

function eventsRoute({ feed, signal }: StatusRoutesOptions): Route {
	return filtered(({ request, response }, filter) => {
		const headers = headersFor("application/x-ndjson");
		if (request.method === "HEAD") {
			response.writeHead(200, headers).end();
		} else if (!streamConnectionEvents(response, { feed, filter, headers, signal })) {
			sendText(response, 503, "too many watch already");
		}
	});
}

/** A route for this host's people whose query says which connections are meant. */
function filtered(
	answer: (exchange: Exchange, filter: ConnectionFilter) => void | Promise<void>,
): Route {
	return {
		localOnly: true,
		async get(exchange) {
			const filter = parseFilter(exchange.query);
			if (typeof filter === "string") sendText(exchange.response, 400, filter);
			else await answer(exchange, filter);
		},
	};
}

async function setConnectionLog(
	{ request, response }: Exchange,
	connectionLog: ConnectionLog,
): Promise<void> {
	// A form of a web page cannot send this type without asking first, and we never allow it.
	const type = request.headers["content-type"]?.split(";")[0]?.trim().toLowerCase();
	if (type !== "application/json") return sendText(response, 415, "send application/json");
	const body = await readBody(request);
	if (body === undefined) {
		response.setHeader("Connection", "close");
		return sendText(response, 413, "body too large");
	}
	const mode = parseMode(body);
	if (mode === undefined) {
		return sendText(response, 400, `send {"mode":"${CONNECTION_LOG_MODES.join('"|"')}"}`);
	}
	connectionLog.setMode(mode, "HTTP request");
	sendJson(response, 200, { mode });
}

/** @returns undefined when there is more than the limit. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
	const chunks: Buffer[] = [];
	let bytes = 0;
	for await (const chunk of request) {
		if (!Buffer.isBuffer(chunk)) continue;
		bytes += chunk.length;
		if (bytes > MAX_BODY_BYTES) return undefined;
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString("utf8");
}

function parseMode(body: string): (typeof CONNECTION_LOG_MODES)[number] | undefined {
	try {
		const parsed: unknown = JSON.parse(body);
		if (typeof parsed !== "object" || parsed === null || !("mode" in parsed)) return undefined;
		return CONNECTION_LOG_MODES.find((mode) => mode === parsed.mode);
	} catch {
		return undefined;
	}
}

/** The filter that the query asks for, or what is wrong with the query. */
function parseFilter(query: URLSearchParams): ConnectionFilter | string {
	const service = query.get("service") ?? undefined;
	const clientText = query.get("client") ?? undefined;
	const client = clientText === undefined ? undefined : parseIpAddress(clientText);
	if (clientText !== undefined && client === undefined) return "client must be an IP address";
	return { service, client };
}
