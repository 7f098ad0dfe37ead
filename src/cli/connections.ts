import { styleText } from "node:util";
import type { ListenAddress } from "../config/config.ts";
import { toConnectionFields } from "../observe/connection-fields.ts";
import { connectionSentence } from "../observe/connection-sentence.ts";
import {
	escapeControlCharactersInJson,
	showControlCharacters,
} from "../observe/control-characters.ts";
import { humanBytes, humanDuration } from "../observe/units.ts";
import {
	CONNECTION_EVENTS_PATH,
	CONNECTIONS_PATH,
	type ConnectionEvent,
	type ConnectionsReport,
} from "../services/status.ts";
import { EXIT_FAILED, EXIT_FINE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { complain } from "./report.ts";
import { fetchStatus, StatusError, watchStatus } from "./status-client.ts";
import { formatTable } from "./table.ts";

export interface ConnectionsOptions {
	readonly address: ListenAddress;
	readonly json: boolean;
	/** One line per connection that begins or ends, until the signal aborts. */
	readonly watch: boolean;
	/** "shop/cart" or "shop/cart:http". */
	readonly service: string | undefined;
	/** An address without port, canonical. */
	readonly client: string | undefined;
}

/** `connections`: what is relayed now, or as it comes and goes. */
export async function connectionsCommand(
	host: Host,
	options: ConnectionsOptions,
	signal: AbortSignal,
): Promise<number> {
	try {
		return options.watch
			? await watchConnections(host, options, signal)
			: await listConnections(host, options, signal);
	} catch (error) {
		if (!(error instanceof StatusError)) throw error;
		complain(host, `connections: ${error.message}`);
		return EXIT_FAILED;
	}
}

async function listConnections(
	host: Host,
	options: ConnectionsOptions,
	signal: AbortSignal,
): Promise<number> {
	const text = await fetchStatus(options.address, withFilter(CONNECTIONS_PATH, options), signal);
	const report = parseConnections(text);
	if (report === undefined) throw new StatusError("The answer cannot be understood");
	host.out(
		options.json
			? `${escapeControlCharactersInJson(text.trim())}\n`
			: renderConnections(report, host.wallMs()),
	);
	return EXIT_FINE;
}

async function watchConnections(
	host: Host,
	options: ConnectionsOptions,
	signal: AbortSignal,
): Promise<number> {
	const path = withFilter(CONNECTION_EVENTS_PATH, options);
	for await (const line of watchStatus(options.address, path, signal)) {
		if (options.json) host.out(`${escapeControlCharactersInJson(line)}\n`);
		else host.out(eventLine(parseEvent(line), host));
	}
	if (signal.aborted) return EXIT_FINE;
	complain(host, "connections: the daemon has ended the answer");
	return EXIT_FAILED;
}

function withFilter(path: string, { service, client }: ConnectionsOptions): string {
	const query = new URLSearchParams();
	if (service !== undefined) query.set("service", service);
	if (client !== undefined) query.set("client", client);
	return query.size === 0 ? path : `${path}?${query.toString()}`;
}

function parseConnections(text: string): ConnectionsReport | undefined {
	try {
		const value: unknown = JSON.parse(text);
		const isOurs =
			typeof value === "object" &&
			value !== null &&
			"connections" in value &&
			Array.isArray(value.connections);
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the daemon of this program wrote it
		return isOurs ? (value as unknown as ConnectionsReport) : undefined;
	} catch {
		return undefined;
	}
}

export function renderConnections(report: ConnectionsReport, nowMs: number): string {
	const { connections, total } = report;
	if (connections.length === 0) return "No connections\n";
	const head = ["AGE", "CLIENT", "SERVICE", "ENDPOINT", "STATE", "IN", "OUT"];
	const rows = connections.map((connection) => [
		humanDuration(Math.max(0, nowMs - connection.startedAtMs)),
		connection.client,
		connection.protocol === "udp" ? `${connection.service} (udp)` : connection.service,
		connection.endpoint ?? "-",
		connection.state,
		humanBytes(connection.bytesIn),
		humanBytes(connection.bytesOut),
	]);
	const align = ["right", "left", "left", "left", "left", "right", "right"] as const;
	const cut =
		total > connections.length ? `The newest ${connections.length} of ${total} connections\n` : "";
	return cut + formatTable(head, rows, align);
}

function parseEvent(line: string): ConnectionEvent {
	try {
		const value: unknown = JSON.parse(line, (_, member: unknown) =>
			typeof member === "string" ? showControlCharacters(member) : member,
		);
		if (typeof value === "object" && value !== null && "event" in value) {
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the daemon of this program wrote it
			return value as ConnectionEvent;
		}
	} catch {
		// Told below.
	}
	throw new StatusError("A line of the answer cannot be understood");
}

/** `+` begins, `-` is over, `!` concerns the watching itself. */
function eventLine(event: ConnectionEvent, host: Host): string {
	switch (event.event) {
		case "started": {
			const protocol = event.protocol === "udp" ? " (udp)" : "";
			return `+ ${event.client} → ${event.service}${protocol}\n`;
		}
		case "ended": {
			const paint: Parameters<typeof connectionSentence>[1] = host.colours
				? (style, text) => styleText(style, text, { validateStream: false })
				: (_, text) => text;
			return `- ${connectionSentence(toConnectionFields(event.record), paint)}\n`;
		}
		case "dropped":
			return `! ${event.count} lines are missing: this reader was too slow\n`;
		default:
			throw new StatusError("A line of the answer cannot be understood");
	}
}
