import { type Log, silentLog } from "../../../src/shared/log.ts";

export interface CapturedLine {
	readonly level: string;
	readonly message: string;
	readonly fields: Readonly<Record<string, unknown>>;
}

/** A Log that keeps what was logged. */
export function aCapturedLog(): { readonly log: Log; readonly lines: CapturedLine[] } {
	const lines: CapturedLine[] = [];
	const at =
		(level: string): Log["info"] =>
		(fields, message) => {
			lines.push({ level, message, fields: { ...fields } });
		};
	const log: Log = {
		...silentLog,
		error: at("error"),
		warn: at("warn"),
		info: at("info"),
		debug: at("debug"),
		child: () => log,
	};
	return { log, lines };
}
