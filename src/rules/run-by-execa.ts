import { execa } from "execa";
import { describeError } from "../shared/errors.ts";
import { requireDescriptors } from "../shared/require-descriptors.ts";
import { CommandError } from "./command-error.ts";
import { toCommandError } from "./failed-command.ts";
import { LineSplitter } from "./line-splitter.ts";
import {
	type CommandOutput,
	KILL_GRACE_MS,
	MAX_OUTPUT_LENGTH,
	type RunOptions,
} from "./run-options.ts";

/** Runs a program wherever Node can. @throws {CommandError} as CommandRunner says. */
export async function runByExeca(
	file: string,
	args: readonly string[],
	options: RunOptions,
	env: Readonly<Record<string, string>>,
): Promise<CommandOutput> {
	const { input = "", signal, timeoutMs, onLine } = options;
	requireDescriptorsFor(file);
	const subprocess = execa(file, args, {
		input,
		env,
		extendEnv: false,
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
