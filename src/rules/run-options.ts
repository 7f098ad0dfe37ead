export interface RunOptions {
	/** For standard input; without it the program reads an empty one. */
	readonly input?: string;
	/** Kills the program when it aborts. */
	readonly signal: AbortSignal;
	/** The program is killed after this, in milliseconds. */
	readonly timeoutMs: number;
	/**
	 * Takes standard output line by line instead of collecting it, so that its length does not matter;
	 * must not throw. `stdout` of the answer is empty then.
	 */
	readonly onLine?: (line: string) => void;
}

export interface CommandOutput {
	readonly stdout: string;
	readonly stderr: string;
}

/** Characters per stream that are kept where output is collected, and per line where it is not. */
export const MAX_OUTPUT_LENGTH: number = 1024 * 1024;

/** After the kill, what still holds the program's output open is waited for this long, in milliseconds. */
export const KILL_GRACE_MS = 1_000;
