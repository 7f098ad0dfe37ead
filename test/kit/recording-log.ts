import { type Log, silentLog } from "../../src/shared/log.ts";

/** A log that keeps its lines as "warn some text {"field":1}". */
export function recordingLog(): { readonly log: Log; readonly lines: string[] } {
	const lines: string[] = [];
	const at = (level: string) => (fields: object, message: string) =>
		void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
	const log: Log = {
		...silentLog,
		error: at("error"),
		warn: at("warn"),
		info: at("info"),
		child: () => log,
	};
	return { log, lines };
}
