import { type Command, Option } from "commander";
import type { FlagSpec } from "../config/flag-spec.ts";
import { FLAGS, type FlagName } from "../config/flags.ts";

/** What of the flags was given so far; filled while commander parses. */
export type GivenFlags = Partial<Record<FlagName, string[]>>;

/** Adds flags of the table to a command, texts unjudged: config/ tells all that is wrong at once. */
export function addFlags(command: Command, names: readonly FlagName[], given: GivenFlags): void {
	for (const name of names) command.addOption(toOption(name, given));
}

function toOption(name: FlagName, given: GivenFlags): Option {
	const spec: FlagSpec<unknown> = FLAGS[name];
	const option = new Option(syntaxOf(name, spec), helpOf(spec)).helpGroup(`${spec.group}:`);
	// A switch alone means true; "=false" may follow, as in kube-proxy.
	if (spec.placeholder === undefined) option.preset("true");
	return option.argParser((text: string) => {
		given[name] = [...(given[name] ?? []), text];
		return text;
	});
}

function syntaxOf(name: FlagName, { placeholder }: FlagSpec<unknown>): string {
	const long = name.length === 1 ? `-${name}, --${name}` : `--${name}`;
	return placeholder === undefined ? `${long} [BOOL]` : `${long} <${placeholder}>`;
}

function helpOf({ help, default: text }: FlagSpec<unknown>): string {
	return text === undefined || text === "" || text === "false"
		? help
		: `${help} (default: ${text})`;
}
