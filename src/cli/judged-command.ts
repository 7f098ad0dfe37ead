import { type Command, Option } from "commander";
import type { ConfigProblem } from "../config/problem.ts";
import { EXIT_USAGE } from "./exit-codes.ts";
import type { GivenFlags } from "./flag-options.ts";
import type { Host } from "./host.ts";
import { complainAll } from "./report.ts";
import { strayProblems } from "./stray-arguments.ts";

export type SetStatus = (code: number) => void;

/** A command whose arguments are judged as a whole: everything that is wrong is told at once. */
export function addCommand(
	program: Command,
	name: string,
	description: string,
): { readonly command: Command; readonly given: GivenFlags } {
	const command = program
		.command(name)
		.description(description)
		.allowUnknownOption()
		.allowExcessArguments()
		// The table says all of it; commander's own additions to a description would say it twice.
		.configureHelp({ optionDescription: ({ description }) => description })
		.addHelpOption(new Option("-h, --help", "print this help and exit").helpGroup("Help:"));
	return { command, given: {} };
}

/** @returns what is wrong with the arguments that the command did not take. */
export function straysOf(command: Command): readonly ConfigProblem[] {
	const known = command.options.map((option) => option.long?.slice(2) ?? "");
	return strayProblems(command.args, [...known, "help"]);
}

/** Runs the work if all arguments are right, else tells all that are not. */
export async function judged(
	host: Host,
	problems: readonly ConfigProblem[],
	work: () => Promise<number>,
): Promise<number> {
	if (problems.length === 0) return await work();
	complainAll(host, problems);
	return EXIT_USAGE;
}

/** Aborts when somebody has had enough: for commands that only look. */
export function abortOnInterrupt(host: Host): AbortSignal {
	const abort = new AbortController();
	host.signals.on("SIGINT", () => abort.abort());
	host.signals.on("SIGTERM", () => abort.abort());
	return abort.signal;
}
