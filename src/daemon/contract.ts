import type { Config } from "../config/config.ts";
import type { StopResult } from "./stop-serving.ts";

/** The running daemon, as the command line drives it. */
export interface Daemon {
	/** Resolves after a stop that was asked for; rejects with what ended the daemon otherwise. */
	readonly ended: Promise<StopResult>;

	/**
	 * First call: stops gracefully (no new connections, drain, no rule left). Second call: the same
	 * without waiting for connections. Later calls do nothing.
	 *
	 * @param reason for the log: "SIGTERM".
	 */
	stop(reason: string): void;

	/** One step more in the connection log: off, errors, all (SIGUSR1). */
	logMoreConnections(): void;

	/** One step less in the connection log (SIGUSR2). */
	logFewerConnections(): void;

	/** Reads the configuration anew, looks at the sources again and verifies the rules now (SIGHUP). */
	reload(): void;

	/** Logs what is about to end the process, so that the last line tells why. */
	fatal(error: unknown): void;
}

export interface DaemonOptions {
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly version: string;
	/** Reads flags and file again; the answer is one Config, or everything that is wrong with it. */
	reloadConfig(): { readonly config: Config } | { readonly problems: readonly string[] };
}
