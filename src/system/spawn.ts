import { Socket } from "node:net";
import { blockingPipe, close, posixSpawn, waitpidNow } from "./libc.ts";
import { must } from "./system-error.ts";

/** A program that has closed its output ends in a moment; it is looked after so often, and less and less. */
const FIRST_LOOK_MS = 1;
const LAST_LOOK_MS = 50;

/** How a program ended: one of both is defined, where it is known. */
export interface ProgramEnd {
	readonly exitStatus: number | undefined;
	/** The number of the signal that ended it. */
	readonly signal: number | undefined;
}

export interface SpawnedProgram {
	readonly stdin: Socket;
	readonly stdout: Socket;
	readonly stderr: Socket;
	/** Resolves when both outputs are closed, which takes that they are read or destroyed, and it has ended. */
	readonly ended: Promise<ProgramEnd>;
	/** Ends it by SIGKILL, with all that it has started and that is in its group still. */
	kill(): void;
}

const UNKNOWN_END: ProgramEnd = { exitStatus: undefined, signal: undefined };

/** Those that run: they end with this process, so that none of them does later what is out of date by then. */
const running = new Set<Spawned>();
process.on("exit", () => {
	for (const program of running) program.kill();
});

/**
 * Starts a program without a copy of this process.
 *
 * Node forks for each program, which copies the tables of all memory that the process has: on a machine of two cores
 * 17 ms at 300 MB, in which this thread does nothing else, and after which every other thread pays for each page that
 * it writes to first: pauses of 1 to 15 ms. posix_spawn lets the new process use our memory until it has its own: 1 ms
 * and no such pause.
 *
 * @param path of the file; PATH is not looked at.
 * @param argv its own name, and its arguments.
 * @throws the system's error; nothing is open then.
 */
export function spawnProgram(
	path: string,
	argv: readonly string[],
	env: Readonly<Record<string, string>>,
): SpawnedProgram {
	const environment = Object.entries(env).map(([name, value]) => `${name}=${value}`);
	// A program would see what is before it.
	const cut = [path, ...argv, ...environment].find((text) => text.includes("\0"));
	if (cut !== undefined) throw new TypeError(`Cannot pass on a null byte: ${JSON.stringify(cut)}`);
	return new Spawned(start(path, argv, environment));
}

/** A program, and our ends of its pipes. */
interface Started {
	readonly pid: number;
	readonly ends: readonly [number, number, number];
}

function start(path: string, argv: readonly string[], environment: readonly string[]): Started {
	const opened: number[] = [];
	try {
		const [inputEnd, input] = openPipe(opened);
		const [output, outputEnd] = openPipe(opened);
		const [errors, errorsEnd] = openPipe(opened);
		const theirs = [inputEnd, outputEnd, errorsEnd] as const;
		const pid = must("posix_spawn", posixSpawn(path, argv, environment, theirs));
		for (const end of theirs) close(end);
		return { pid, ends: [input, output, errors] };
	} catch (error) {
		for (const fd of opened) close(fd);
		throw error;
	}
}

/** @param opened gets both. @returns the reading and the writing end. */
function openPipe(opened: number[]): [number, number] {
	const ends = new Int32Array(2);
	must("pipe2", blockingPipe(ends));
	const [reading = -1, writing = -1] = ends;
	opened.push(reading, writing);
	return [reading, writing];
}

class Spawned implements SpawnedProgram {
	readonly stdin: Socket;
	readonly stdout: Socket;
	readonly stderr: Socket;
	readonly ended: Promise<ProgramEnd>;
	readonly #pid: number;

	constructor({ pid, ends: [input, output, errors] }: Started) {
		this.#pid = pid;
		running.add(this);
		this.stdin = new Socket({ fd: input, readable: false, writable: true });
		this.stdout = new Socket({ fd: output, readable: true, writable: false });
		this.stderr = new Socket({ fd: errors, readable: true, writable: false });
		for (const stream of [this.stdin, this.stdout, this.stderr]) {
			// EPIPE of a program that does not read to the end, at most; how it ends is what counts.
			stream.on("error", () => stream.destroy());
		}
		this.ended = this.#end();
	}

	kill(): void {
		// Its number may be another program's.
		if (!running.has(this)) return;
		try {
			process.kill(-this.#pid, "SIGKILL");
		} catch {
			// All of them have ended: it waits to be looked after.
		}
	}

	async #end(): Promise<ProgramEnd> {
		await Promise.all([this.stdout, this.stderr].map((stream) => closed(stream)));
		const status = new Int32Array(1);
		for (let waitMs = FIRST_LOOK_MS; ; waitMs = Math.min(LAST_LOOK_MS, waitMs * 2)) {
			const result = waitpidNow(this.#pid, status);
			if (result !== 0) {
				running.delete(this);
				this.stdin.destroy();
				// ECHILD, at most: nobody knows how it ended.
				return result < 0 ? UNKNOWN_END : readStatus(status[0] ?? 0);
			}
			// oxlint-disable-next-line no-await-in-loop -- this is the wait
			await new Promise((resolve) => setTimeout(resolve, waitMs));
		}
	}
}

/** Whatever error comes before. */
async function closed(stream: Socket): Promise<void> {
	if (stream.closed) return;
	const { promise, resolve } = Promise.withResolvers<void>();
	stream.once("close", resolve);
	await promise;
}

/** What `WIFEXITED` and the others of wait(2) read. */
function readStatus(status: number): ProgramEnd {
	const signal = status & 0x7f;
	return signal === 0
		? { exitStatus: (status >> 8) & 0xff, signal: undefined }
		: { exitStatus: undefined, signal };
}
