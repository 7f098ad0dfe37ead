import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { appendFileSync, closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface CommandResult {
	readonly stdout: string;
	readonly stderr: string;
	readonly exitCode: number;
}

export interface CommandOptions {
	/** For standard input; without it the command reads an empty one. */
	readonly input?: string;
	/** The command is killed after this, in milliseconds. */
	readonly timeoutMs?: number;
	/** True: a non-zero exit status is an answer, not an error. */
	readonly mayFail?: boolean;
}

const DEFAULT_TIMEOUT_MS = 60_000;
/** Per stream. A rule listing of thousands of rules is below 2 MiB. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

const { PATH = "" } = process.env;

/** Debian gives people who are not root a PATH without the folders of ip and iptables. */
export const commandEnv: NodeJS.ProcessEnv = {
	...process.env,
	PATH: `${PATH}:/usr/sbin:/sbin`,
	LC_ALL: "C",
};

/**
 * For NODE_COMPILE_CACHE of the kit's own programs, of which a run starts hundreds: TypeScript that was
 * compiled once takes half the processor time to start.
 */
export const COMPILED_PROGRAMS = fileURLToPath(
	new URL("../../node_modules/.cache/test-kit", import.meta.url),
);

/**
 * Runs one command to its end.
 *
 * Rejects when it cannot be started, takes longer than the limit, prints more than 16 MiB, or (unless
 * `mayFail`) ends with another status than 0; the error tells what it printed.
 */
export function runCommand(
	file: string,
	args: readonly string[],
	{ input = "", timeoutMs = DEFAULT_TIMEOUT_MS, mayFail = false }: CommandOptions = {},
): Promise<CommandResult> {
	return new Promise((resolve, reject) => {
		const child = spawn(file, args, { env: commandEnv, stdio: ["pipe", "pipe", "pipe"] });
		const fail = (reason: string) => {
			child.kill("SIGKILL");
			reject(new Error(`Cannot run "${[file, ...args].join(" ")}": ${reason}`));
		};
		child.on("error", (error) => fail(error.message));
		const timer = setTimeout(() => fail(`no end within ${timeoutMs} ms`), timeoutMs);
		const stdout = collect(child.stdout, fail);
		const stderr = collect(child.stderr, fail);
		// A command that does not read its input closes the pipe: not an error of ours.
		child.stdin.on("error", () => {});
		child.stdin.end(input);
		child.on("close", (code) => {
			clearTimeout(timer);
			const exitCode = code ?? 128;
			if (exitCode === 0 || mayFail) resolve({ stdout: stdout(), stderr: stderr(), exitCode });
			else fail(`exit status ${exitCode}: ${stderr().trim() || stdout().trim()}`);
		});
	});
}

/** The same for the last moments of a process, when nothing can be waited for. Never throws. */
export function runCommandSync(file: string, args: readonly string[], input = ""): CommandResult {
	const { stdout, stderr, status } = spawnSync(file, args, {
		env: commandEnv,
		input,
		encoding: "utf8",
		timeout: DEFAULT_TIMEOUT_MS,
	});
	return { stdout: stdout ?? "", stderr: stderr ?? "", exitCode: status ?? 128 };
}

/** Starts a program that lives on when this process ends, its output added to a file. */
export function spawnDetached([file = "", ...args]: readonly string[], logFile: string): void {
	const output = openSync(logFile, "a");
	const child = spawn(file, args, {
		detached: true,
		stdio: ["ignore", output, output],
		env: commandEnv,
		cwd: "/",
	});
	child.on("error", (error) => appendFileSync(logFile, `Cannot start: ${error.message}\n`));
	child.unref();
	closeSync(output);
}

let guard: readonly string[] | undefined;

/**
 * What to put before a long-lived command so that the kernel kills it when this process dies, however
 * it dies: nobody's SIGKILL may leave a daemon behind. Empty where setpriv (util-linux) is missing.
 */
export function dieWithParent(): readonly string[] {
	guard ??=
		runCommandSync("setpriv", ["--pdeathsig", "KILL", "true"]).exitCode === 0
			? ["setpriv", "--pdeathsig", "KILL"]
			: [];
	return guard;
}

/** Resolves when the child is gone; at once when it is already, or never ran. */
export function exited(child: ChildProcess): Promise<void> {
	if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
		return Promise.resolve();
	}
	return new Promise((resolve) => {
		child.once("exit", () => resolve());
	});
}

function collect(stream: NodeJS.ReadableStream, fail: (reason: string) => void): () => string {
	const chunks: Buffer[] = [];
	let bytes = 0;
	stream.on("data", (chunk: Buffer) => {
		bytes += chunk.length;
		if (bytes > MAX_OUTPUT_BYTES) fail(`more than ${MAX_OUTPUT_BYTES} bytes of output`);
		else chunks.push(chunk);
	});
	return () => Buffer.concat(chunks).toString("utf8");
}
