import { type CST, Lexer, type LineCounter, Parser } from "yaml";

/**
 * Far deeper than any manifest; the parser's time grows with the square of the depth, and some 1,500
 * levels use up its stack.
 */
const MAX_DEPTH = 200;

/** Pieces of text between two stops: a few milliseconds of work. */
const LEXEMES_PER_STEP = 2_000;

/** Thrown for what is better not read on. */
export class NestedTooDeeplyError extends RangeError {
	/** 1-based. */
	readonly line: number;

	constructor(line: number) {
		super(`wanted nesting at most ${MAX_DEPTH} deep, got more`);
		this.line = line;
	}
}

/**
 * The tokens of a YAML text, as `Parser.parse` gives them, with an `undefined` now and then where the
 * caller can let others work: a large text takes seconds.
 *
 * @throws {NestedTooDeeplyError}
 */
export function* readTokens(
	text: string,
	lines: LineCounter,
): Generator<CST.Token | undefined, void, undefined> {
	const parser = new Parser(lines.addNewLine);
	const depth = new Depth();
	let untilStop = LEXEMES_PER_STEP;
	lines.addNewLine(0);
	for (const lexeme of new Lexer().lex(text)) {
		if (depth.after(lexeme) > MAX_DEPTH) throw new NestedTooDeeplyError(lines.lineStarts.length);
		yield* parser.next(lexeme);
		untilStop -= 1;
		if (untilStop > 0) continue;
		untilStop = LEXEMES_PER_STEP;
		yield undefined;
	}
	yield* parser.end();
}

/** How deep the nesting is: by indentation, by lists and keys in one line, by brackets. */
class Depth {
	/** The columns at which a line began that goes on with what is open, leftmost first. */
	readonly #columns: number[] = [];
	/** The width of what a line began with, until its first word; then undefined. */
	#indent: number | undefined = 0;
	#brackets = 0;
	#indicatorsInLine = 0;

	after(lexeme: string): number {
		if (lexeme.endsWith("\n")) {
			this.#indent = 0;
			this.#indicatorsInLine = 0;
		} else if (this.#indent !== undefined) this.#beginLine(lexeme, this.#indent);
		if (lexeme === "[" || lexeme === "{") this.#brackets += 1;
		else if (lexeme === "]" || lexeme === "}") this.#brackets -= 1;
		else if (lexeme === "-" || lexeme === "?" || lexeme === ":") this.#indicatorsInLine += 1;
		const inLine = this.#brackets > 0 ? this.#brackets : Math.max(0, this.#indicatorsInLine - 1);
		return this.#columns.length + inLine;
	}

	#beginLine(lexeme: string, indent: number): void {
		// Flow collections may be indented as they like.
		if (this.#brackets > 0 || lexeme.startsWith("#")) this.#indent = undefined;
		else if (lexeme.trim() === "") this.#indent = indent + lexeme.length;
		else {
			while ((this.#columns.at(-1) ?? -1) >= indent) this.#columns.pop();
			this.#columns.push(indent);
			this.#indent = undefined;
		}
	}
}
