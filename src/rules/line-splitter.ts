/** Cuts a stream of text into lines and hands them on, however the stream is cut into chunks. */
export class LineSplitter {
	readonly #onLine: (line: string) => void;
	readonly #maxLineLength: number;
	/** What came since the last newline; undefined once that was too long. */
	#rest: string | undefined = "";

	constructor(onLine: (line: string) => void, maxLineLength: number) {
		this.#onLine = onLine;
		this.#maxLineLength = maxLineLength;
	}

	/** True once a line was longer than the limit; nothing is handed on from then on. */
	get overflowed(): boolean {
		return this.#rest === undefined;
	}

	push(chunk: string): void {
		if (this.#rest === undefined) return;
		const lines = (this.#rest + chunk).split("\n");
		const rest = lines.pop() ?? "";
		for (const line of lines) this.#onLine(line);
		this.#rest = rest.length > this.#maxLineLength ? undefined : rest;
	}

	/** Hands on the last line, where it did not end in a newline. */
	end(): void {
		if (this.#rest !== undefined && this.#rest !== "") this.#onLine(this.#rest);
		this.#rest = this.#rest === undefined ? undefined : "";
	}
}
