import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { exited } from "../../test/kit/lab-command.ts";
import type { LabNamespace } from "../../test/kit/lab-namespace.ts";
import type { Running } from "./contenders.ts";
import type { Setting, Target } from "./setting.ts";

const READY_MS = 10_000;
const STOP_MS = 5_000;
const ASK_AGAIN_MS = 20;
/** Of what a program says, which is read only when it fails. */
const MAX_COMPLAINT_CHARS = 2_000;

/**
 * Starts programs on the node and waits until they listen on their ports.
 *
 * @param commands each a file and its arguments.
 * @throws {Error} with what they said, when one ends before.
 */
export async function startPrograms(
	{ lab: { node } }: Setting,
	commands: readonly (readonly string[])[],
	ports: Target["ports"],
): Promise<Running> {
	const programs = commands.map((command) => startProgram(node, command));
	const stop = async () => void (await Promise.all(programs.map(stopProgram)));
	try {
		await listening(node, programs, ports);
	} catch (error) {
		await stop();
		throw error;
	}
	return {
		target: { address: node.ipv4, ports },
		pids: programs.flatMap(({ child: { pid } }) => (pid === undefined ? [] : [pid])),
		stop,
	};
}

interface Program {
	readonly name: string;
	readonly child: ChildProcess;
	complaint: string;
}

function startProgram(node: LabNamespace, [file = "", ...args]: readonly string[]): Program {
	const child = node.spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
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
	node: LabNamespace,
	programs: readonly Program[],
	ports: Target["ports"],
): Promise<void> {
	const wanted = Object.values(ports);
	const endMs = performance.now() + READY_MS;
	for (;;) {
		// oxlint-disable-next-line no-await-in-loop -- asks until they listen, within the limit
		const { stdout } = await node.exec("ss", [
			"--tcp",
			"--udp",
			"--listening",
			"-n",
			"--no-header",
		]);
		if (wanted.every((port) => new RegExp(`:${port}\\s`).test(stdout))) return;
		const ended = programs.find(({ child }) => child.exitCode !== null);
		if (ended !== undefined) {
			throw new Error(
				`${ended.name} ended with status ${ended.child.exitCode}: ${ended.complaint.trim()}`,
			);
		}
		if (performance.now() > endMs) {
			throw new Error(`Not all of the ports ${wanted.join(", ")} listen within ${READY_MS} ms`);
		}
		// oxlint-disable-next-line no-await-in-loop -- see above
		await sleep(ASK_AGAIN_MS);
	}
}
