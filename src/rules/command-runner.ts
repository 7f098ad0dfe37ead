import { execa } from "execa";
import { describeError, errorCode } from "../shared/errors.ts";
import { requireDescriptors } from "../shared/require-descriptors.ts";
import { CommandError, classifyFailure } from "./command-error.ts";
import { LineSplitter } from "./line-splitter.ts";

/** Runs programs. The only way out of this room; tests put other ones in its place. */
export interface CommandRunner {
	/**
	 * Runs one program, found through PATH, without a shell, to its end.
	 *
	 * @throws {CommandError} for everything but exit status 0.
	 */
	run(file: string, args: readonly string[], options: RunOptions): Promise<CommandOutput>;
}

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
const MAX_OUTPUT_LENGTH = 1024 * 1024;

/** After the kill, what still holds the program's output open is waited for this long, in milliseconds. */
const KILL_GRACE_MS = 1_000;

/** Where iptables and conntrack are; a unit or a login without root's PATH does not have them. */
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * @param env the process's environment.
 * @param passedOn names of the variables that programs are to see beside PATH; no others are shown.
 */
export function createCommandRunner(
	env: Readonly<Record<string, string | undefined>>,
	passedOn: readonly string[] = [],
): CommandRunner {
	const { PATH: path } = env;
	const childEnv = {
		...Object.fromEntries(passedOn.map((name) => [name, env[name] ?? ""])),
		PATH: path === undefined || path === "" ? SYSTEM_PATH : `${path}:${SYSTEM_PATH}`,
		// Error texts are read: they must not be translated.
		LC_ALL: "C",
	};
	return { run: (file, args, options) => runCommand(file, args, options, childEnv) };
}

async function runCommand(
	file: string,
	args: readonly string[],
	options: RunOptions,
	env: Readonly<Record<string, string>>,
): Promise<CommandOutput> {
	const { input = "", signal, timeoutMs, onLine } = options;
	if (signal.aborted) throw new CommandError("COMMAND_CANCELED", { file });
	requireDescriptorsFor(file);
	const subprocess = execa(file, args, {
		input,
		env,
		reject: false,
		stripFinalNewline: false,
		maxBuffer: MAX_OUTPUT_LENGTH,
		buffer: { stdout: onLine === undefined, stderr: true },
		timeout: timeoutMs,
		cancelSignal: signal,
		killSignal: "SIGKILL",
		killDescendants: true,
	});
	const lines = onLine === undefined ? undefined : new LineSplitter(onLine, MAX_OUTPUT_LENGTH);
	subprocess.stdout.setEncoding("utf8").on("data", (chunk: string) => {
		lines?.push(chunk);
		if (lines?.overflowed === true) subprocess.kill();
	});
	// A descendant that left the process group survives the kill and may hold our pipes open; the
	// answer must not depend on it.
	const letGo = () => {
		subprocess.stdout.destroy();
		subprocess.stderr.destroy();
	};
	const onAbort = () => {
		setTimeout(letGo, KILL_GRACE_MS).unref();
	};
	const limit = setTimeout(letGo, timeoutMs + KILL_GRACE_MS);
	signal.addEventListener("abort", onAbort, { once: true });
	try {
		const result = await subprocess;
		lines?.end();
		const stdout = onLine === undefined ? String(result.stdout ?? "") : "";
		const stderr = String(result.stderr ?? "");
		if (lines?.overflowed === true) throw new CommandError("COMMAND_OUTPUT_TOO_LONG", { file });
		if (result.failed) throw toCommandError(file, result, stderr);
		return { stdout, stderr };
	} finally {
		clearTimeout(limit);
		signal.removeEventListener("abort", onAbort);
	}
}

function requireDescriptorsFor(file: string): void {
	try {
		requireDescriptors();
	} catch (cause) {
		throw new CommandError("COMMAND_FAILED", { file, stderr: describeError(cause), cause });
	}
}

interface FailedResult {
	readonly timedOut: boolean;
	readonly isCanceled: boolean;
	readonly isMaxBuffer: boolean;
	readonly exitCode?: number;
	readonly cause?: unknown;
}

function toCommandError(file: string, result: FailedResult, stderr: string): CommandError {
	const { exitCode, cause } = result;
	const failure = { file, exitStatus: exitCode, stderr };
	if (result.timedOut) return new CommandError("COMMAND_TIMED_OUT", failure);
	if (result.isCanceled) return new CommandError("COMMAND_CANCELED", failure);
	if (result.isMaxBuffer) return new CommandError("COMMAND_OUTPUT_TOO_LONG", failure);
	if (exitCode !== undefined && exitCode !== 0) {
		return new CommandError(classifyFailure(stderr), failure);
	}
	const code = errorCode(cause);
	if (code === "ENOENT") return new CommandError("COMMAND_NOT_INSTALLED", failure);
	if (code === "EACCES" || code === "EPERM") {
		return new CommandError("COMMAND_NOT_PERMITTED", { ...failure, stderr: describeError(cause) });
	}
	return new CommandError("COMMAND_FAILED", {
		...failure,
		stderr: stderr || describeError(cause),
		cause,
	});
}
