/** One line of `check`. */
export interface Judgement {
	/** `bad`: the daemon cannot do its work; `note`: it can, and somebody should know. */
	readonly state: "good" | "note" | "bad";
	readonly text: string;
	/** What to do about it; only where something is to be done. */
	readonly remedy?: string;
}

export function good(text: string): Judgement {
	return { state: "good", text };
}

export function note(text: string, remedy?: string): Judgement {
	return remedy === undefined ? { state: "note", text } : { state: "note", text, remedy };
}
