import { delimiter, isAbsolute, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { errorCode } from "../shared/errors.ts";
import { toError } from "./command-error.ts";
import { type FailedResult, toCommandError } from "./failed-command.ts";
import { LineSplitter } from "./line-splitter.ts";
import {
	type CommandOutput,
	KILL_GRACE_MS,
	MAX_OUTPUT_LENGTH,
	type RunOptions,
} from "./run-options.ts";

/**
 * Starts a program from the file at this path, without a shell; system/spawn.ts does.
 *
 * @param argv its own name, and its arguments.
 * @throws the system's error.
 */
export type SpawnProgram = (
	path: string,
	argv: readonly string[],
	env: Readonly<Record<string, string>>,
) => StartedProgram;

interface StartedProgram {
	readonly stdin: Writable;
	readonly stdout: Readable;
	readonly stderr: Readable;
	/** Resolves when both outputs are closed, at either end, and it has ended. */
	readonly ended: Promise<{
		/** Undefined where a signal ended it. */
		readonly exitStatus: number | undefined;
		readonly signal: number | undefined;
	}>;
	/** With all that it has started and that is in its group still. */
	kill(): void;
}

type Stop = "timedOut" | "isCanceled" | "isMaxBuffer";

/** Runs a program to its end. @throws {CommandError} as CommandRunner says. */
export async function runSpawned(
	spawn: SpawnProgram,
	file: string,
	args: readonly string[],
	options: RunOptions,
	env: Readonly<Record<string, string>>,
): Promise<CommandOutput> {
	const { input = "", signal, timeoutMs, onLine } = options;
	let stoppedFor: Stop | undefined;
	const failed = (more: Pick<FailedResult, "exitCode" | "cause">, stderr: string) =>
		toCommandError(file, { ...stopsOf(stoppedFor), ...more }, stderr);
	let program: StartedProgram;
	try {
		program = spawnFromPath(spawn, file, args, env);
	} catch (cause) {
		throw failed({ cause }, "");
	}
	let grace: NodeJS.Timeout | undefined;
	const stop = (why: Stop) => {
		if (stoppedFor !== undefined) return;
		stoppedFor = why;
		program.kill();
		// A descendant that left the group survives the kill and may hold our pipes open; the answer must not
		// depend on it.
		grace = setTimeout(() => {
			program.stdout.destroy();
			program.stderr.destroy();
		}, KILL_GRACE_MS);
	};
	const onAbort = () => stop("isCanceled");
	signal.addEventListener("abort", onAbort, { once: true });
	const limit = setTimeout(() => stop("timedOut"), timeoutMs);
	const onTooLong = () => stop("isMaxBuffer");
	const stdout =
		onLine === undefined
			? collect(program.stdout, onTooLong)
			: splitLines(program.stdout, onLine, onTooLong);
	const stderr = collect(program.stderr, onTooLong);
	program.stdin.end(input);
	try {
		const { exitStatus, signal: endedBy } = await program.ended;
		if (stoppedFor === undefined && exitStatus === 0) {
			return { stdout: stdout(), stderr: stderr() };
		}
		const cause = endedBy === undefined ? undefined : new Error(`ended by signal ${endedBy}`);
		throw failed({ exitCode: exitStatus, cause }, stderr());
	} finally {
		clearTimeout(limit);
		clearTimeout(grace);
		signal.removeEventListener("abort", onAbort);
	}
}

function stopsOf(stop: Stop | undefined): Record<Stop, boolean> {
	return {
		timedOut: stop === "timedOut",
		isCanceled: stop === "isCanceled",
		isMaxBuffer: stop === "isMaxBuffer",
	};
}

/** @returns gives what came until now. */
function collect(stream: Readable, onTooLong: () => void): () => string {
	let text = "";
	stream.setEncoding("utf8").on("data", (chunk: string) => {
		if (text.length + chunk.length > MAX_OUTPUT_LENGTH) onTooLong();
		else text += chunk;
	});
	return () => text;
}

/** @returns to be called at the end: gives the last line, where it had no newline, and no text. */
function splitLines(
	stream: Readable,
	onLine: (line: string) => void,
	onTooLong: () => void,
): () => string {
	const lines = new LineSplitter(onLine, MAX_OUTPUT_LENGTH);
	stream.setEncoding("utf8").on("data", (chunk: string) => {
		lines.push(chunk);
		if (lines.overflowed) onTooLong();
	});
	return () => {
		lines.end();
		return "";
	};
}

/**
 * From the first folder of PATH where it can be run, as execvp does it, but never from the working folder, and a script
 * has to say what runs it.
 *
 * @throws the system's error where there is none.
 */
function spawnFromPath(
	spawn: SpawnProgram,
	file: string,
	args: readonly string[],
	env: Readonly<Record<string, string>>,
): StartedProgram {
	const argv = [file, ...args];
	if (file.includes("/")) return spawn(file, argv, env);
	const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
	let denied: Error | undefined;
	for (const folder of folders) {
		try {
			return spawn(join(folder, file), argv, env);
		} catch (error) {
			if (!isOfOneFolder(error)) throw error;
			if (errorCode(error) === "EACCES") denied ??= toError(error);
		}
	}
	throw denied ?? Object.assign(new Error(`spawn ${file} ENOENT`), { code: "ENOENT" });
}

function isOfOneFolder(error: unknown): boolean {
	return ["ENOENT", "ENOTDIR", "EACCES"].includes(errorCode(error) ?? "");
}
