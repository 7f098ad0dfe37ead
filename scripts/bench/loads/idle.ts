import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { exited } from "../../../test/kit/lab-command.ts";
import type { LabNamespace } from "../../../test/kit/lab-namespace.ts";
import { benchProgram } from "../programs.ts";

export interface IdleLoad {
	readonly address: string;
	readonly port: number;
	readonly connections: number;
}

const OPEN_TIMEOUT_MS = 60_000;
/** What a proxy does after the last connection came. */
const SETTLE_MS = 2_000;

/**
 * Calls back while so many connections are open and nothing goes over them.
 *
 * @throws {Error} when they do not all come to be.
 */
export async function whileIdle<T>(
	client: LabNamespace,
	{ address, port, connections }: IdleLoad,
	look: () => T,
): Promise<T> {
	const child = client.spawn(
		process.execPath,
		[benchProgram("idle-load"), address, `${port}`, `${connections}`],
		{ stdio: ["pipe", "pipe", "pipe"] },
	);
	try {
		if (child.stdout === null) throw new Error("Cannot read what the idle clients say");
		let complaint = "";
		child.stderr?.on("data", (chunk: Buffer) => {
			complaint = (complaint + chunk.toString()).slice(-1_000);
		});
		const opened = once(child.stdout, "data", { signal: AbortSignal.timeout(OPEN_TIMEOUT_MS) });
		const gone = exited(child).then(() => "gone");
		if ((await Promise.race([opened, gone])) === "gone") {
			throw new Error(`The idle connections did not come to be: ${errorLineOf(complaint)}`);
		}
		await sleep(SETTLE_MS);
		return look();
	} finally {
		child.kill("SIGKILL");
		await exited(child);
	}
}

/** The line that matters of what Node prints when a program throws. */
function errorLineOf(complaint: string): string {
	const lines = complaint.split("\n");
	return lines.find((line) => /^\w*Error\b/.test(line)) ?? complaint.trim();
}
