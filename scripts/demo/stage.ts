import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];

const WIDTH = 88;
const INDENT = "   ";

/** What the demo prints, and whether what it claimed was true. */
export class Stage {
	readonly #failed: string[] = [];
	#claims = 0;
	#scenes = 0;

	title(text: string): void {
		console.log(`\n${paint("bold", text)}\n`);
	}

	/** A new part of the story. */
	scene(name: string): void {
		this.#scenes += 1;
		console.log(`\n${paint(["bold", "cyan"], `${this.#scenes}  ${name}`)}\n`);
	}

	/** Plain words: what happens and why it matters. */
	tell(text: string): void {
		console.log(`${wrapped(text.replaceAll(/\s+/g, " ").trim())}\n`);
	}

	/** An empty line between claims and the next words. */
	pause(): void {
		console.log("");
	}

	/** What was seen, as it is. */
	show(...lines: readonly string[]): void {
		console.log(`${lines.map((line) => `${INDENT}  ${line}`).join("\n")}\n`);
	}

	/**
	 * Something that the demo says is so, checked against what happened.
	 *
	 * @param seen what was found instead; printed when the claim does not hold.
	 */
	claim(text: string, holds: boolean, seen: unknown = ""): void {
		this.#claims += 1;
		if (holds) {
			console.log(`${INDENT}${paint("green", "✓")} ${text}`);
			return;
		}
		const found = typeof seen === "string" ? seen : JSON.stringify(seen);
		this.#failed.push(text);
		console.log(`${INDENT}${paint(["bold", "red"], "✗")} ${text}\n${INDENT}  but: ${found}`);
	}

	/** The last words. @returns true when everything that was claimed was so. */
	verdict(seconds: number): boolean {
		const held = this.#claims - this.#failed.length;
		const time = `in ${seconds.toFixed(0)} s`;
		if (this.#failed.length === 0) {
			console.log(`\n${paint(["bold", "green"], `All ${this.#claims} claims held`)}, ${time}.\n`);
			return true;
		}
		console.log(`\n${paint(["bold", "red"], `${held} of ${this.#claims} claims held`)}, ${time}:`);
		for (const text of this.#failed) console.log(`${INDENT}✗ ${text}`);
		console.log("");
		return false;
	}
}

/** Colours only where a terminal shows them; NO_COLOR is honoured. */
export function paint(style: Style, text: string): string {
	return styleText(style, text, { stream: process.stdout });
}

/** Each endpoint keeps its colour, so that a row of answers can be read at a glance. */
export function paintEndpoint(name: string): string {
	const colours = { ep1: "blue", ep2: "yellow", ep3: "magenta" } as const;
	const colour = Object.entries(colours).find(([endpoint]) => endpoint === name)?.[1];
	return colour === undefined ? paint("red", name) : paint(colour, name);
}

function wrapped(text: string): string {
	const lines: string[] = [];
	let line = INDENT;
	for (const word of text.split(" ")) {
		if (line.length + word.length > WIDTH && line !== INDENT) {
			lines.push(line.trimEnd());
			line = INDENT;
		}
		line += `${word} `;
	}
	return [...lines, line.trimEnd()].join("\n");
}
