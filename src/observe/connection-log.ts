import { type ConnectionRecord, isTroubled } from "../services/connection-record.ts";
import type { Log } from "../shared/log.ts";
import { toConnectionFields } from "./connection-fields.ts";
import { CONNECTION_MESSAGE } from "./connection-sentence.ts";

export const CONNECTION_LOG_MODES = ["off", "errors", "all"] as const;
export type ConnectionLogMode = (typeof CONNECTION_LOG_MODES)[number];

/**
 * At 300 to 400 bytes a line, some 25 GB a day at the very worst; a person or a disk has no use for
 * more. The unit file lets journald take as much.
 */
const MAX_LINES_PER_SECOND = 1_000;

export interface ConnectionLogOptions {
	/** One whose `info` lines are not filtered: the mode here is the only switch. */
	readonly log: Log;
	readonly mode: ConnectionLogMode;
	readonly maxLinesPerSecond?: number;
	/** Called when the mode has changed. */
	readonly onMode?: () => void;
}

/** Writes one line per connection or flow that has ended, as far as the mode asks for it. */
export class ConnectionLog {
	readonly #log: Log;
	readonly #maxLinesPerSecond: number;
	#mode: ConnectionLogMode;
	#linesLeft: number;
	#leftOut = 0;
	#leftOutTold = 0;
	#refill: NodeJS.Timeout | undefined;
	readonly #onMode: () => void;

	constructor({
		log,
		mode,
		maxLinesPerSecond = MAX_LINES_PER_SECOND,
		onMode = () => {},
	}: ConnectionLogOptions) {
		this.#onMode = onMode;
		this.#log = log;
		this.#mode = mode;
		this.#maxLinesPerSecond = maxLinesPerSecond;
		this.#linesLeft = maxLinesPerSecond;
	}

	record(record: ConnectionRecord): void {
		if (this.#mode === "off") return;
		if (this.#mode === "errors" && !isTroubled(record)) return;
		if (!this.#takeLine()) {
			this.#leftOut += 1;
			return;
		}
		this.#log.info(toConnectionFields(record), CONNECTION_MESSAGE);
	}

	get mode(): ConnectionLogMode {
		return this.#mode;
	}

	/** Takes effect with the next connection that ends. */
	setMode(mode: ConnectionLogMode, reason: string): void {
		if (mode === this.#mode) return;
		this.#mode = mode;
		this.#onMode();
		this.#log.info({ mode, reason }, "connection log changed");
	}

	/** One step: off, errors, all. Stays at "all". */
	more(reason: string): void {
		this.#step(1, reason);
	}

	/** One step back. Stays at "off". */
	fewer(reason: string): void {
		this.#step(-1, reason);
	}

	/** Connections since the start that were to be logged and were not, for their rate. */
	leftOut(): number {
		return this.#leftOut;
	}

	#step(by: 1 | -1, reason: string): void {
		const index = CONNECTION_LOG_MODES.indexOf(this.#mode) + by;
		this.setMode(CONNECTION_LOG_MODES[index] ?? this.#mode, reason);
	}

	#takeLine(): boolean {
		// The timer runs only while lines are written: a quiet daemon is not woken up.
		if (this.#refill === undefined) {
			this.#refill = setTimeout(() => this.#secondIsOver(), 1_000).unref();
		}
		if (this.#linesLeft === 0) return false;
		this.#linesLeft -= 1;
		return true;
	}

	#secondIsOver(): void {
		this.#refill = undefined;
		this.#linesLeft = this.#maxLinesPerSecond;
		const untold = this.#leftOut - this.#leftOutTold;
		if (untold === 0) return;
		this.#leftOutTold = this.#leftOut;
		this.#log.warn({ connections: untold }, "connections were left out of the log");
	}
}
