import { oneLine } from "../one-line.ts";

/** An exec plugin gave no credential. The message is fit for a log: no secret is in it. */
export class ExecPluginError extends Error {
	/** @param why goes on after "the exec plugin /usr/bin/x …"; without anything that it printed. */
	constructor(command: string, why: string, printed = "") {
		const said = withoutSecrets(printed);
		super(`the exec plugin ${oneLine(command, 200)} ${why}${said === "" ? "" : `: ${said}`}`);
	}

	override get name(): string {
		return "ExecPluginError";
	}
}

/** Anything long enough to be a token or a key goes; what is left is for a person. */
export function withoutSecrets(text: string): string {
	return oneLine(text.replaceAll(/[\w+=~-]{20,}/g, "…"), 200);
}
