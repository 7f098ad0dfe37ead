const NEWLINE = 0x0a;

/**
 * Cuts a stream of bytes into lines and parses each as JSON.
 *
 * A last line without its newline is never given out: a watch that was cut in the middle of an object
 * must not look like one that sent a shorter object.
 */
export class JsonLines {
	readonly #maxLineBytes: number;
	#parts: Uint8Array[] = [];
	#partBytes = 0;

	/** @param maxLineBytes a longer line is an error: it would be held in memory whole. */
	constructor(maxLineBytes: number) {
		this.#maxLineBytes = maxLineBytes;
	}

	/**
	 * The values of the lines that this chunk completes, parsed one by one as they are asked for, so
	 * that the lines before a bad one count. Empty lines are skipped.
	 *
	 * @throws {RangeError} at a line longer than the bound.
	 * @throws {SyntaxError} at a line that is not JSON.
	 */
	*push(chunk: Uint8Array): Generator<unknown, void, undefined> {
		let start = 0;
		for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
			this.#add(chunk.subarray(start, end));
			start = end + 1;
			const text = this.#takeLine();
			if (text.trim() !== "") yield JSON.parse(text);
		}
		this.#add(chunk.subarray(start));
	}

	#add(part: Uint8Array): void {
		if (part.length === 0) return;
		this.#partBytes += part.length;
		if (this.#partBytes > this.#maxLineBytes) {
			this.#parts = [];
			throw new RangeError(`Cannot read a line of more than ${this.#maxLineBytes} bytes`);
		}
		this.#parts.push(part);
	}

	#takeLine(): string {
		const only = this.#parts.length === 1 ? this.#parts[0] : undefined;
		const bytes = Buffer.concat(only === undefined ? this.#parts : [only], this.#partBytes);
		this.#parts = [];
		this.#partBytes = 0;
		return bytes.toString("utf8");
	}
}
