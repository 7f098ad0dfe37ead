import { Command, CommanderError, type OutputConfiguration } from "commander";
import { show } from "../config/problem.ts";
import { addConnections, addStatus } from "./asking-commands.ts";
import { EXIT_FINE, EXIT_USAGE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import type { SetStatus } from "./judged-command.ts";
import { addCheck, addCleanup, addPlan, addRun } from "./node-commands.ts";
import { complain } from "./report.ts";

/*
 * cli/ is the program as a shell sees it: arguments, the environment, signals, standard output and
 * error, exit statuses. It turns arguments into texts (commander), hands them to config/ to be judged,
 * sets other rooms going through the doors of host.ts, and prints what they answer. It decides nothing
 * about Services.
 */

/**
 * Does what the arguments say.
 *
 * @param argv without node and script.
 * @returns the exit status, once everything is over. Rejects only for a bug.
 */
export async function runCli(argv: readonly string[], host: Host): Promise<number> {
	let status = EXIT_FINE;
	const program = createProgram(host, (code) => {
		status = code;
	});
	try {
		await program.parseAsync([...argv], { from: "user" });
		return status;
	} catch (error) {
		if (!(error instanceof CommanderError)) throw error;
		// Help and version were asked for and given.
		if (error.exitCode === 0) return EXIT_FINE;
		complain(host, usageText(error));
		return EXIT_USAGE;
	}
}

function usageText({ code, message }: CommanderError): string {
	const missing = /option '(?:-\w, )?(--[\w-]+) <(.*)>' argument missing/.exec(message);
	if (code === "commander.optionMissingArgument" && missing !== null) {
		return `${missing[1]}: wanted ${missing[2]}, got nothing`;
	}
	return message.replace(/^error: /, "");
}

function createProgram(host: Host, setStatus: SetStatus): Command {
	const program = new Command("kube-userproxy")
		.description(
			"Kubernetes Services without IPVS: a node daemon that relays each connection itself",
		)
		.version(host.version, "--version", "print the version and exit")
		.helpOption("-h, --help", "print this help and exit")
		.helpCommand("help [COMMAND]", "print the help of a command")
		.configureOutput(outputOf(host))
		.exitOverride()
		.addHelpText("after", PROGRAM_NOTES);
	// Reached only when no command is named.
	program
		.allowUnknownOption()
		.allowExcessArguments()
		.action((_options: object, command: Command) => {
			setStatus(EXIT_USAGE);
			complainNoCommand(host, command);
		});
	addRun(program, host, setStatus);
	addCleanup(program, host, setStatus);
	addCheck(program, host, setStatus);
	addStatus(program, host, setStatus);
	addConnections(program, host, setStatus);
	addPlan(program, host, setStatus);
	return program;
}

const PROGRAM_NOTES = `
Exit status: 0 fine, 1 failed, 2 wrong usage or configuration.
Flags of the daemon: kube-userproxy run --help`;

function outputOf(host: Host): OutputConfiguration {
	return {
		writeOut: (text) => host.out(text),
		// Errors are told by runCli, in our own form.
		writeErr: () => {},
		getOutHelpWidth: () => host.columns,
		getErrHelpWidth: () => host.columns,
		getOutHasColors: () => false,
		getErrHasColors: () => false,
	};
}

function complainNoCommand(host: Host, program: Command): void {
	const [first] = program.args;
	const names = program.commands.map((command) => command.name()).join(", ");
	if (first === undefined) complain(host, `wanted a command: ${names}; see --help`);
	else if (first.startsWith("-")) {
		complain(host, `wanted a command before ${first}; the daemon's flags follow run`);
	} else complain(host, `wanted a command (${names}), got ${show(first)}`);
}
