import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { exited } from "../../test/kit/lab-command.ts";
import type { LabNamespace } from "../../test/kit/lab-namespace.ts";

/** Longer than anything that a helper waits for. */
const ANSWER_MS = 90_000;

/** A program of ours in a namespace, which says one JSON object a line. */
export class Helper {
	readonly #child: ChildProcess;
	readonly #where: string;
	readonly #lines: AsyncIterator<string>;

	/** @param program in programs/. */
	constructor(namespace: LabNamespace, program: string, ...args: readonly string[]) {
		const path = fileURLToPath(new URL(`programs/${program}`, import.meta.url));
		this.#child = namespace.spawn(process.execPath, [path, ...args], {
			stdio: ["pipe", "pipe", "inherit"],
		});
		this.#where = `${program} in ${namespace.role}`;
		this.#child.stdin?.on("error", () => {});
		const { stdout } = this.#child;
		if (stdout === null) throw new Error(`Cannot read what ${this.#where} says`);
		this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
	}

	/** Says a line; the answer is the next line that comes. */
	async ask(line: string): Promise<unknown> {
		this.#child.stdin?.write(`${line}\n`);
		return await this.#next();
	}

	/** Ends its input; the answer is its last line. */
	async end(): Promise<unknown> {
		this.#child.stdin?.end();
		const last = await this.#next();
		await exited(this.#child);
		return last;
	}

	async #next(): Promise<unknown> {
		let timer: NodeJS.Timeout | undefined;
		const late = new Promise<never>((_, reject) => {
			const fail = () => reject(new Error(`No answer of ${this.#where} within ${ANSWER_MS} ms`));
			timer = setTimeout(fail, ANSWER_MS);
		});
		try {
			const { value, done } = await Promise.race([this.#lines.next(), late]);
			if (done === true) throw new Error(`${this.#where} has ended and said nothing`);
			return JSON.parse(value) as unknown;
		} finally {
			clearTimeout(timer);
		}
	}
}
