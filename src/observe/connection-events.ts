import type { ServerResponse } from "node:http";
import type { ConnectionEvent } from "../services/status.ts";
import type { ConnectionFeed } from "./connection-feed.ts";
import { type ConnectionFilter, matchesFilter } from "./connection-filter.ts";

/** Bytes that wait for a slow reader before lines are left out. */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Writes what happens to connections to an HTTP answer, one JSON line each, until the reader leaves
 * or the signal aborts. A reader that is too slow misses lines and is told how many.
 *
 * @returns false when too many watch already; nothing has been written then.
 */
export function streamConnectionEvents(
	response: ServerResponse,
	options: {
		readonly feed: ConnectionFeed;
		readonly filter: ConnectionFilter;
		readonly headers: Readonly<Record<string, string>>;
		readonly signal: AbortSignal;
	},
): boolean {
	const { feed, filter, headers, signal } = options;
	let dropped = 0;
	const write = (event: ConnectionEvent): void => {
		response.write(`${JSON.stringify(event)}\n`);
	};
	const tellDropped = (): void => {
		if (dropped === 0) return;
		write({ event: "dropped", count: dropped });
		dropped = 0;
	};
	const leave = feed.watch((event) => {
		if (!isWanted(event, filter)) return;
		if (response.writableLength > MAX_WAITING_BYTES) {
			dropped += 1;
			return;
		}
		tellDropped();
		write(event);
	});
	if (leave === undefined) return false;
	const stop = (): void => {
		response.end();
	};
	response.on("drain", tellDropped);
	response.on("close", () => {
		leave();
		signal.removeEventListener("abort", stop);
	});
	response.writeHead(200, headers);
	// Else the reader sees nothing, not even that it was let in, until the first connection.
	response.flushHeaders();
	if (signal.aborted) stop();
	else signal.addEventListener("abort", stop, { once: true });
	return true;
}

function isWanted(event: ConnectionEvent, filter: ConnectionFilter): boolean {
	switch (event.event) {
		case "started":
			return matchesFilter(event, filter);
		case "ended":
			return matchesFilter(event.record, filter);
		case "dropped":
			return true;
	}
}
