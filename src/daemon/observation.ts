import type { Config } from "../config/config.ts";
import { ConnectionFeed } from "../observe/connection-feed.ts";
import { ConnectionLog } from "../observe/connection-log.ts";
import { createLogger, type Logger } from "../observe/logger.ts";
import type { EngineHooks } from "../proxies/engine.ts";
import type { ConnectionRecord, ConnectionStart } from "../services/connection-record.ts";

/** What is written and kept of what goes on: the logger, the connection log and the recent records. */
export interface Observation {
	readonly log: Logger;
	readonly connectionLog: ConnectionLog;
	readonly feed: ConnectionFeed;
}

export function createObservation(config: Config): Observation {
	const log = createLogger({ format: config.logFormat, level: config.logLevel });
	return {
		log,
		connectionLog: new ConnectionLog({ log: log.always, mode: config.logConnections }),
		feed: new ConnectionFeed(),
	};
}

/** The engine's hooks: each connection is counted, kept for a while, and logged as the mode asks. */
export function engineHooks(
	{ connectionLog, feed }: Observation,
	services: EngineHooksCounters,
): EngineHooks {
	return {
		onConnectionStart(start) {
			services.started(start);
			feed.started(start);
		},
		onConnectionEnd(record) {
			services.ended(record);
			feed.ended(record);
			connectionLog.record(record);
		},
	};
}

/** Of observe's ServiceMetrics. */
export interface EngineHooksCounters {
	started(start: ConnectionStart): void;
	ended(record: ConnectionRecord): void;
}
