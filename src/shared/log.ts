/**
 * What a room needs of a logger: the part of pino's interface that we use.
 *
 * Rooms are handed one and never import pino. The message is constant text, facts are fields; the
 * field names are listed once, in docs/observing.md.
 */
export interface Log {
	error(fields: object, message: string): void;
	warn(fields: object, message: string): void;
	info(fields: object, message: string): void;
	debug(fields: object, message: string): void;
	/** False when `debug` lines go nowhere: skip building costly fields. */
	isDebug(): boolean;
	child(fields: object): Log;
}

/** Says nothing. */
export const silentLog: Log = {
	error: () => {},
	warn: () => {},
	info: () => {},
	debug: () => {},
	isDebug: () => false,
	child: () => silentLog,
};
