/**
 * Base of every error this daemon throws on purpose.
 *
 * Callers branch on {@link code}, never on the message. `retriable` says whether the same call may
 * succeed later without anyone changing anything; the sync loop retries those and reports the rest.
 */
export abstract class UserProxyError extends Error {
	abstract readonly code: string;
	abstract readonly retriable: boolean;

	override get name(): string {
		return this.constructor.name;
	}
}

/** The text of anything that was thrown, with the texts of its causes, joined by ": ". */
export function describeError(error: unknown): string {
	const texts: string[] = [];
	let current: unknown = error;
	// Eight is far deeper than any chain of ours; the bound stands against a cyclic `cause`.
	for (let depth = 0; depth < 8 && current !== undefined && current !== null; depth += 1) {
		const text = textOf(current);
		if (text !== "" && !texts.some((known) => known.includes(text))) texts.push(text);
		current = current instanceof Error ? current.cause : undefined;
	}
	return texts.length === 0 ? "unknown error" : texts.join(": ");
}

function textOf(thrown: unknown): string {
	if (thrown instanceof Error) return thrown.message;
	return typeof thrown === "string" ? thrown : `a thrown ${typeof thrown}`;
}

/** The `code` of a Node system error ("ECONNREFUSED"), or undefined. */
export function errorCode(error: unknown): string | undefined {
	if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
	return typeof error.code === "string" ? error.code : undefined;
}
