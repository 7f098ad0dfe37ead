/**
 * The observe room: what can be seen of the daemon from outside. Log lines, one record per
 * connection, metrics, the HTTP paths, systemd's notifications. It is handed plain data and
 * functions, knows no other room but the vocabulary, and must never slow down or stop the relay:
 * nothing here throws at its caller, and whatever is bounded counts what it left out.
 */
import { pino } from "pino";
import type { Log } from "../shared/log.ts";
import { escapeControlCharactersInJson } from "./control-characters.ts";
import { type LogDestination, LogWriter } from "./log-writer.ts";
import { createPrettyPrinter } from "./pretty.ts";

export type LogLevel = "error" | "warn" | "info" | "debug";

export interface LoggerOptions {
	readonly format: "json" | "pretty";
	readonly level: LogLevel;
	/** Standard output by default. */
	readonly destination?: LogDestination;
}

export interface Logger extends Log {
	/** The same destination, but `info` lines are written whatever the level: for the connection log. */
	readonly always: Log;
	level(): LogLevel;
	/** Takes effect at once, in every child too. */
	setLevel(level: LogLevel): void;
	/** Lines given up since the start because the reader was too slow, or gone. */
	droppedLines(): number;
	/** Resolves when all is written, or after `timeoutMs`: call it before `process.exit`. */
	flush(timeoutMs: number): Promise<void>;
}

/**
 * Makes the process's logger. One JSON object a line: `level` as a word, `time` as UTC in ISO 8601,
 * the fields, `msg`; nothing else (journald and container runtimes add host and pid themselves).
 */
export function createLogger(options: LoggerOptions): Logger {
	const destination = options.destination ?? standardOutput();
	const print =
		options.format === "pretty"
			? createPrettyPrinter({ colours: destination.isTerminal })
			: escapeControlCharactersInJson;
	const root = pino(
		{
			level: options.level,
			base: null,
			timestamp: pino.stdTimeFunctions.isoTime,
			formatters: { level: (label) => ({ level: label }) },
			serializers: { error: pino.stdSerializers.err, err: pino.stdSerializers.err },
		},
		{ write: (line: string) => destination.write(print(line)) },
	);
	let level = options.level;
	const log = asLog(root);
	destination.onRoomAgain((lines) => log.warn({ lines }, "log lines were dropped"));
	return {
		...log,
		always: asLog(root.child({}, { level: "info" })),
		level: () => level,
		setLevel(wanted) {
			level = wanted;
			root.level = wanted;
		},
		droppedLines: () => destination.droppedLines(),
		flush: (timeoutMs) => destination.flush(timeoutMs),
	};
}

let standard: LogWriter | undefined;

/** One per process, so that lines of two loggers do not mix and the last line is never lost. */
function standardOutput(): LogDestination {
	if (standard === undefined) {
		const writer = new LogWriter(1);
		standard = writer;
		process.on("exit", () => writer.flushSync());
	}
	return standard;
}

function asLog(logger: pino.Logger): Log {
	const at =
		(level: LogLevel): Log["info"] =>
		(fields, message) => {
			try {
				logger[level](fields, message);
			} catch (error) {
				// A field that cannot be read (a throwing getter) must not end what was being logged about.
				logger[level]({ unloggable: error instanceof Error ? error.message : "fields" }, message);
			}
		};
	return {
		error: at("error"),
		warn: at("warn"),
		info: at("info"),
		debug: at("debug"),
		isDebug: () => logger.isLevelEnabled("debug"),
		child: (fields) => asLog(logger.child(fields)),
	};
}
