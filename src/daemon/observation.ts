import type { Config } from "../config/config.ts";
import { ConnectionFeed } from "../observe/connection-feed.ts";
import { ConnectionLog } from "../observe/connection-log.ts";
import { createLogger, type Logger } from "../observe/logger.ts";
import type { EngineHooks } from "../proxies/engine.ts";
import type { ServiceCounts } from "../services/connection-counts.ts";
import type {
	ConnectionInterest,
	ConnectionRecord,
	ConnectionStart,
} from "../services/connection-record.ts";

/** What is written and kept of what goes on: the logger, the connection log and the recent records. */
export interface Observation {
	readonly log: Logger;
	readonly connectionLog: ConnectionLog;
	readonly feed: ConnectionFeed;
	/** Has somebody told of the connections that are wanted one by one: now, and when that changes. */
	followInterest(tell: (interest: ConnectionInterest) => void): void;
}

export function createObservation(config: Config): Observation {
	const log = createLogger({ format: config.logFormat, level: config.logLevel });
	let tellInterest: (interest: ConnectionInterest) => void = () => {};
	const changed = (): void => tellInterest(interest());
	const connectionLog = new ConnectionLog({
		log: log.always,
		mode: config.logConnections,
		onMode: changed,
	});
	const feed = new ConnectionFeed({ onWatchers: changed });
	const interest = (): ConnectionInterest =>
		feed.hasWatchers
			? { starts: true, ends: "all" }
			: { starts: false, ends: INTEREST_OF_MODE[connectionLog.mode] };
	return {
		log,
		connectionLog,
		feed,
		followInterest(tell) {
			tellInterest = tell;
			changed();
		},
	};
}

const INTEREST_OF_MODE = { off: "none", errors: "troubled", all: "all" } as const;

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
		onCounted: (counts) => services.counted(counts),
	};
}

/** Of observe's ServiceMetrics. */
export interface EngineHooksCounters {
	started(start: ConnectionStart): void;
	ended(record: ConnectionRecord): void;
	counted(counts: ServiceCounts): void;
}
