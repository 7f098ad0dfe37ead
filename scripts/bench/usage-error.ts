/** What was wrong with the command line: what was wanted, and what was got. */
export class UsageError extends Error {
	override readonly name = "UsageError";
}
