import { describeError, UserProxyError } from "../shared/errors.ts";

export type CommandErrorCode =
	/** No such program. */
	| "COMMAND_NOT_INSTALLED"
	/** Not root, or without CAP_NET_ADMIN. */
	| "COMMAND_NOT_PERMITTED"
	/** Another program holds the xtables lock. */
	| "COMMAND_LOCK_HELD"
	/** The kernel has no such table, family or backend. */
	| "COMMAND_NO_KERNEL_SUPPORT"
	/** No end within the limit; killed. */
	| "COMMAND_TIMED_OUT"
	/** The caller's signal aborted; killed. */
	| "COMMAND_CANCELED"
	/** More output than the limit; killed. */
	| "COMMAND_OUTPUT_TOO_LONG"
	/** Ended with another status than 0 for a reason that is not one of the above. */
	| "COMMAND_FAILED";

const RETRIABLE: ReadonlySet<CommandErrorCode> = new Set([
	"COMMAND_LOCK_HELD",
	"COMMAND_TIMED_OUT",
	"COMMAND_FAILED",
]);

/** Kept of a command's error output: enough for the message, whatever the command prints. */
const MAX_STDERR_LENGTH = 2_000;

/** A command could not be started, was killed, or ended with another status than 0. */
export class CommandError extends UserProxyError {
	readonly code: CommandErrorCode;
	readonly retriable: boolean;
	/** The program that was to run. */
	readonly file: string;
	/** Undefined where it did not end by itself. */
	readonly exitStatus: number | undefined;
	/** What it printed on standard error, cut to 2,000 characters. */
	readonly stderr: string;

	constructor(
		code: CommandErrorCode,
		failure: {
			readonly file: string;
			readonly exitStatus?: number | undefined;
			readonly stderr?: string;
			readonly cause?: unknown;
		},
	) {
		const stderr = withoutWarnings(failure.stderr ?? "").slice(0, MAX_STDERR_LENGTH);
		super(`Cannot run ${failure.file}: ${reasonFor(code, failure.exitStatus, stderr)}`, {
			cause: failure.cause,
		});
		this.code = code;
		this.retriable = RETRIABLE.has(code);
		this.file = failure.file;
		this.exitStatus = failure.exitStatus;
		this.stderr = stderr;
	}
}

/**
 * Sorts the error output of iptables and conntrack by what it means for us.
 *
 * Reading text is safe here: commands run with LC_ALL=C, the texts have been the same since iptables
 * 1.4, and exit statuses do not tell (4 is "no permission", "lock held" and "busy" in one).
 */
export function classifyFailure(stderr: string): CommandErrorCode {
	return CLASSES.find(([pattern]) => pattern.test(stderr))?.[1] ?? "COMMAND_FAILED";
}

const CLASSES: readonly (readonly [RegExp, CommandErrorCode])[] = [
	[/holding the xtables lock/, "COMMAND_LOCK_HELD"],
	[
		/you must be root|Operation not permitted|Permission denied|CAP_NET_ADMIN/,
		"COMMAND_NOT_PERMITTED",
	],
	[
		/Table does not exist|initialize (?:ip6?tables )?table|Failed to initialize nft|Could not fetch rule set generation id|Address family not supported|Protocol not supported|Operation not supported/,
		"COMMAND_NO_KERNEL_SUPPORT",
	],
];

/** True for any error of a command that has this code. */
export function isCommandError(error: unknown, code: CommandErrorCode): error is CommandError {
	return error instanceof CommandError && error.code === code;
}

/** What was thrown, as an Error. */
export function toError(thrown: unknown): Error {
	return thrown instanceof Error ? thrown : new Error(describeError(thrown));
}

function reasonFor(code: CommandErrorCode, exitStatus: number | undefined, stderr: string): string {
	const said = stderr === "" ? "" : `: ${stderr}`;
	switch (code) {
		case "COMMAND_NOT_INSTALLED":
			return "it is not installed";
		case "COMMAND_NOT_PERMITTED":
			return `not permitted, root or CAP_NET_ADMIN is needed${said}`;
		case "COMMAND_LOCK_HELD":
			return "another program holds the xtables lock";
		case "COMMAND_NO_KERNEL_SUPPORT":
			return `the kernel lacks support${said}`;
		case "COMMAND_TIMED_OUT":
			return `it did not end in time${said}`;
		case "COMMAND_CANCELED":
			return "canceled";
		case "COMMAND_OUTPUT_TOO_LONG":
			return "it printed more than the limit";
		case "COMMAND_FAILED":
			return exitStatus === undefined ? `it failed${said}` : `exit status ${exitStatus}${said}`;
		default:
			return code satisfies never;
	}
}

/** Lines like "# Warning: iptables-legacy tables present" are no failure and hide the one that is. */
function withoutWarnings(stderr: string): string {
	return stderr
		.split("\n")
		.filter((line) => line.trim() !== "" && !line.startsWith("#"))
		.join("\n");
}
