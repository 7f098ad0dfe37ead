import type { Readable } from "node:stream";
import { errorCode } from "../../shared/errors.ts";
import { requireDescriptors } from "../../shared/require-descriptors.ts";
import type { ExecPluginConfig } from "./exec-plugin-config.ts";
import { ExecPluginError } from "./exec-plugin-error.ts";

export interface RunOptions {
	readonly env: Readonly<Record<string, string | undefined>>;
	/** Kills the plugin and its children. */
	readonly signal: AbortSignal;
	/** They are killed after this, in milliseconds. */
	readonly killMs: number;
}

/** An ExecCredential with a certificate is some kilobytes. */
const MAX_OUTPUT_LENGTH = 1024 * 1024;
/** What it says of a failure is cut anyway. */
const MAX_STDERR_LENGTH = 8_192;
/**
 * A child that the plugin left behind may hold its output open; this long after the plugin's own end,
 * in milliseconds, what it printed is taken as it is.
 */
const OUTPUT_GRACE_MS = 500;

/**
 * Runs an exec plugin to its end: with an empty standard input, and in a process group of its own, so
 * that its children can be killed with it. Those that left the group live on.
 *
 * @returns what it printed on standard output.
 * @throws {ExecPluginError}
 */
export async function runExecPlugin(
	{ command, args, env, installHint }: ExecPluginConfig,
	options: RunOptions,
): Promise<string> {
	const { signal, killMs } = options;
	const { execa } = await import("execa");
	signal.throwIfAborted();
	const hint = installHint === "" ? "" : `; its kubeconfig says: ${installHint}`;
	const notStarted = (error: unknown) =>
		new ExecPluginError(command, `cannot be started (${errorCode(error)})${hint}`);
	try {
		requireDescriptors();
	} catch (error) {
		throw notStarted(error);
	}
	const subprocess = execa(command, args, {
		env: { ...options.env, ...env },
		extendEnv: false,
		stdin: "ignore",
		reject: false,
		buffer: false,
		timeout: killMs,
		cancelSignal: signal,
		killSignal: "SIGKILL",
		killDescendants: true,
	});
	const { stdout, stderr } = subprocess;
	const printed = collect(stdout, MAX_OUTPUT_LENGTH, () => subprocess.kill());
	const said = collect(stderr, MAX_STDERR_LENGTH);
	subprocess.nodeChildProcess.once("exit", () => {
		setTimeout(() => {
			stdout.destroy();
			stderr.destroy();
		}, OUTPUT_GRACE_MS).unref();
	});
	const { exitCode, timedOut, isCanceled, cause } = await subprocess;
	const fail = (why: string) => new ExecPluginError(command, why, said.text);
	if (printed.overflowed) throw new ExecPluginError(command, "printed too much and was killed");
	if (timedOut) throw fail(`did not come to an end within ${killMs / 1_000} s and was killed`);
	if (isCanceled) throw fail("was not waited for");
	if (exitCode === 0) return printed.text;
	if (exitCode !== undefined) throw fail(`failed with status ${exitCode}`);
	throw errorCode(cause) === undefined ? fail("was killed") : notStarted(cause);
}

interface Collected {
	readonly text: string;
	readonly overflowed: boolean;
}

/** Reads to the end whatever comes, and keeps so much of it. */
function collect(stream: Readable, maxLength: number, onOverflow = () => {}): Collected {
	const collected = { text: "", overflowed: false };
	stream.setEncoding("utf8").on("data", (chunk: string) => {
		collected.text = (collected.text + chunk).slice(0, maxLength + 1);
		if (collected.overflowed || collected.text.length <= maxLength) return;
		collected.overflowed = true;
		onOverflow();
	});
	return collected;
}
