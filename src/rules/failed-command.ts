import { describeError, errorCode } from "../shared/errors.ts";
import { CommandError, classifyFailure } from "./command-error.ts";

/** What is known of a program that did not end with status 0. */
export interface FailedResult {
	readonly timedOut: boolean;
	readonly isCanceled: boolean;
	readonly isMaxBuffer: boolean;
	/** Undefined where it was not started, or ended by a signal. */
	readonly exitCode?: number | undefined;
	/** Why it could not be started. */
	readonly cause?: unknown;
}

export function toCommandError(file: string, result: FailedResult, stderr: string): CommandError {
	const { exitCode, cause } = result;
	const failure = { file, exitStatus: exitCode, stderr };
	if (result.timedOut) return new CommandError("COMMAND_TIMED_OUT", failure);
	if (result.isCanceled) return new CommandError("COMMAND_CANCELED", failure);
	if (result.isMaxBuffer) return new CommandError("COMMAND_OUTPUT_TOO_LONG", failure);
	if (exitCode !== undefined && exitCode !== 0) {
		return new CommandError(classifyFailure(stderr), failure);
	}
	const code = errorCode(cause);
	if (code === "ENOENT") return new CommandError("COMMAND_NOT_INSTALLED", failure);
	if (code === "EACCES" || code === "EPERM") {
		return new CommandError("COMMAND_NOT_PERMITTED", { ...failure, stderr: describeError(cause) });
	}
	return new CommandError("COMMAND_FAILED", {
		...failure,
		stderr: stderr || describeError(cause),
		cause,
	});
}
