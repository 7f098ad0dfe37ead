import { type ConfigProblem, describeConfigProblem } from "../config/problem.ts";
import { showControlCharacters } from "../observe/control-characters.ts";
import type { Host } from "./host.ts";

const PROGRAM = "kube-userproxy";

/** One line on standard error; what came from outside is shown, not obeyed by the terminal. */
export function complain(host: Host, text: string): void {
	host.err(`${PROGRAM}: ${showControlCharacters(text)}\n`);
}

export function complainAll(host: Host, problems: readonly ConfigProblem[]): void {
	for (const problem of problems) complain(host, describeConfigProblem(problem));
}
