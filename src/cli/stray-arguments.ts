import { isFlagName } from "../config/flags.ts";
import { nearest } from "../config/nearest.ts";
import { type ConfigProblem, show } from "../config/problem.ts";
import { foreignFlagSentence } from "./foreign-flags.ts";

/** Nobody reads more. */
const MAX_TOLD = 20;

/**
 * What is wrong with the arguments that a command did not take: unknown flags, and values without a
 * flag.
 *
 * @param known the command's own long flags, without dashes.
 */
export function strayProblems(
	args: readonly string[],
	known: readonly string[],
): readonly ConfigProblem[] {
	const problems: ConfigProblem[] = [];
	for (const [index, arg] of args.entries()) {
		if (isFlag(arg)) problems.push(unknownFlag(arg, known));
		// What follows an unknown flag is most likely its value.
		else if (!isFlagWithoutValue(args[index - 1])) {
			problems.push({ where: show(arg), message: "is not expected here" });
		}
	}
	return problems.slice(0, MAX_TOLD);
}

function isFlag(arg: string): boolean {
	return arg.length > 1 && arg.startsWith("-") && arg !== "--";
}

function isFlagWithoutValue(arg: string | undefined): boolean {
	return arg !== undefined && isFlag(arg) && !arg.includes("=");
}

function unknownFlag(arg: string, known: readonly string[]): ConfigProblem {
	const shown = arg.split("=", 1)[0] ?? arg;
	const name = shown.replace(/^--?/, "");
	const where = /^[\w-]{1,64}$/.test(name) ? shown : show(shown);
	const sentence = foreignFlagSentence(name);
	if (sentence !== undefined && !known.includes(name)) return { where, message: sentence };
	if (isFlagName(name)) return { where, message: "is a flag of run, not of this command" };
	const guess = nearest(name, known);
	return { where, message: guess === undefined ? "unknown" : `unknown; did you mean --${guess}?` };
}
