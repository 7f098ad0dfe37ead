import type { ConnectionEnd } from "../services/connection-record.ts";
import type { AttemptFields, ConnectionFields } from "./connection-fields.ts";
import { humanBytes, humanDuration } from "./units.ts";

/** The constant message of a connection's line. */
export const CONNECTION_MESSAGE = "connection";

/** How each end is told to a person, and whether it is one to worry about. */
const ENDS: Readonly<Record<ConnectionEnd, { readonly words: string; readonly style: EndStyle }>> =
	{
		closed: { words: "closed", style: "green" },
		idle: { words: "idle", style: "green" },
		"client-reset": { words: "reset by client", style: "yellow" },
		"endpoint-reset": { words: "reset by endpoint", style: "yellow" },
		"client-vanished": { words: "client vanished", style: "yellow" },
		"endpoint-vanished": { words: "endpoint vanished", style: "red" },
		"client-gone": { words: "client gave up waiting", style: "yellow" },
		"no-endpoint": { words: "no endpoint", style: "red" },
		unreachable: { words: "no endpoint answered", style: "red" },
		"half-close-timeout": { words: "half-closed too long", style: "yellow" },
		"endpoint-removed": { words: "its endpoint was removed", style: "yellow" },
		unanswered: { words: "never answered", style: "yellow" },
		evicted: { words: "evicted, too many flows", style: "red" },
		"endpoint-gone": { words: "endpoint gone", style: "yellow" },
		stopped: { words: "cut by stop", style: "yellow" },
		overload: { words: "refused, node overloaded", style: "red" },
		"relay-failed": { words: "cut, the relay failed", style: "red" },
	};

type EndStyle = "green" | "yellow" | "red";
type Painter = (style: EndStyle | "dim" | "bold", text: string) => string;

export function isConnectionLine(
	line: object,
): line is ConnectionFields & { readonly msg: typeof CONNECTION_MESSAGE } {
	// Lines with this message are written by connection-log.ts alone, from ConnectionFields.
	return "msg" in line && line.msg === CONNECTION_MESSAGE && "client" in line && "end" in line;
}

/**
 * One line about one connection:
 *
 * `10.1.0.2:41234 → shop/cart:http → 10.2.1.2:8080 (web-1)  closed  312 B in  4.1 kB out  12 ms  after 10.2.2.2:8080 refused (1 ms)`
 */
export function connectionSentence(connection: ConnectionFields, paint: Painter): string {
	const { client, service, protocol, affinity, durationMs } = connection;
	const { words, style } = ENDS[connection.end] ?? { words: connection.end, style: "yellow" };
	const arrow = paint("dim", "→");
	const named = protocol === "udp" ? `${service} (udp)` : service;
	return [
		`${client} ${arrow} ${paint("bold", named)} ${arrow} ${servedBy(connection, paint)}`,
		paint(style, words),
		`${humanBytes(connection.bytesIn)} in${datagrams(connection.datagramsIn)}`,
		`${humanBytes(connection.bytesOut)} out${datagrams(connection.datagramsOut)}`,
		humanDuration(durationMs),
		...(affinity === undefined ? [] : [`affinity ${affinity}`]),
		...failedAttempts(connection, paint),
	].join("  ");
}

function servedBy({ endpoint, pod }: ConnectionFields, paint: Painter): string {
	if (endpoint === undefined) return paint("red", "nobody");
	return pod === undefined ? endpoint : `${endpoint} (${pod})`;
}

function datagrams(count: number | undefined): string {
	return count === undefined ? "" : ` (${count} datagram${count === 1 ? "" : "s"})`;
}

function failedAttempts(
	{ attempts = [], attemptCount = attempts.length }: ConnectionFields,
	paint: Painter,
): readonly string[] {
	const failed = attempts.filter(({ outcome }) => outcome !== "connected");
	if (failed.length === 0) return [];
	const more = attemptCount - attempts.length;
	const texts = [...failed.map(attemptText), ...(more > 0 ? [`${more} more`] : [])];
	return [`${paint("yellow", "after")} ${texts.join(", ")}`];
}

function attemptText({ endpoint, outcome, ms, code }: AttemptFields): string {
	// The code only where the outcome does not say it already.
	const detail = outcome === "local-error" || outcome === "unreachable" ? code : undefined;
	const why = detail === undefined ? outcome : `${outcome} ${detail}`;
	return `${endpoint} ${why} (${humanDuration(ms)})`;
}
