import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { exited } from "../../test/kit/lab-command.ts";
import type { LabNamespace } from "../../test/kit/lab-namespace.ts";

const READY_MS = 10_000;
const STOP_MS = 5_000;
const ASK_AGAIN_MS = 20;
/** Of what a program says, which is read only when it fails. */
const MAX_COMPLAINT_CHARS = 2_000;

/** Programs that were started together. */
interface StartedPrograms {
	readonly pids: readonly number[];
	stop(): Promise<void>;
}

/**
 * Starts programs in a namespace and waits until they listen on their ports.
 *
 * @param commands each a file and its arguments.
 * @throws {Error} with what they said, when one ends before.
 */
export async function startPrograms(
	namespace: LabNamespace,
	commands: readonly (readonly string[])[],
	ports: readonly number[],
): Promise<StartedPrograms> {
	const programs = commands.map((command) => startProgram(namespace, command));
	const stop = async () => void (await Promise.all(programs.map(stopProgram)));
	try {
		await listening(namespace, programs, ports);
	} catch (error) {
		await stop();
		throw error;
	}
	return {
		pids: programs.flatMap(({ child: { pid } }) => (pid === undefined ? [] : [pid])),
		stop,
	};
}

interface Program {
	readonly name: string;
	readonly child: ChildProcess;
	complaint: string;
}

function startProgram(namespace: LabNamespace, [file = "", ...args]: readonly string[]): Program {
	const child = namespace.spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
	const program = { name: file, child, complaint: "" };
	for (const stream of [child.stdout, child.stderr]) {
		stream?.on("data", (chunk: Buffer) => {
			program.complaint = (program.complaint + chunk.toString()).slice(-MAX_COMPLAINT_CHARS);
		});
	}
	return program;
}

async function stopProgram({ child }: Program): Promise<void> {
	child.kill("SIGTERM");
	const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
	await exited(child);
	clearTimeout(late);
}

async function listening(
	namespace: LabNamespace,
	programs: readonly Program[],
	ports: readonly number[],
): Promise<void> {
	const endMs = performance.now() + READY_MS;
	for (;;) {
		// oxlint-disable-next-line no-await-in-loop -- asks until they listen, within the limit
		const { stdout } = await namespace.exec("ss", [
			"--tcp",
			"--udp",
			"--listening",
			"-n",
			"--no-header",
		]);
		if (ports.every((port) => new RegExp(`:${port}\\s`).test(stdout))) return;
		const ended = programs.find(({ child }) => child.exitCode !== null);
		if (ended !== undefined) {
			throw new Error(
				`${ended.name} ended with status ${ended.child.exitCode}: ${ended.complaint.trim()}`,
			);
		}
		if (performance.now() > endMs) {
			throw new Error(`Not all of the ports ${ports.join(", ")} listen within ${READY_MS} ms`);
		}
		// oxlint-disable-next-line no-await-in-loop -- see above
		await sleep(ASK_AGAIN_MS);
	}
}
