import { type CST, Lexer, type LineCounter, Parser } from "yaml";

/** Far deeper than any manifest; the parser's time grows with the square of the depth. */
const MAX_DEPTH = 200;

/** Pieces of text between two stops: a few milliseconds of work. */
const LEXEMES_PER_STEP = 2_000;

/** Thrown for what is better not read on. */
export class NestedTooDeeplyError extends RangeError {}

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
		depth.see(lexeme);
		yield* parser.next(lexeme);
		untilStop -= 1;
		if (untilStop > 0) continue;
		untilStop = LEXEMES_PER_STEP;
		yield undefined;
	}
	yield* parser.end();
}

/** Counts the nesting that costs one character a level; indentation alone needs a line for each. */
class Depth {
	#brackets = 0;
	#indicatorsInLine = 0;

	see(lexeme: string): void {
		if (lexeme === "[" || lexeme === "{") this.#brackets += 1;
		else if (lexeme === "]" || lexeme === "}") this.#brackets -= 1;
		else if (lexeme === "-" || lexeme === "?" || lexeme === ":") this.#indicatorsInLine += 1;
		else if (lexeme.includes("\n")) this.#indicatorsInLine = 0;
		if (Math.max(this.#brackets, this.#brackets > 0 ? 0 : this.#indicatorsInLine) > MAX_DEPTH) {
			throw new NestedTooDeeplyError(`wanted nesting at most ${MAX_DEPTH} deep, got more`);
		}
	}
}
