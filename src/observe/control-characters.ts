/**
 * What a terminal may take for a command, or what hides or turns text: control characters (C0, C1,
 * delete), format characters (writing direction, zero width), line and paragraph separators. Names
 * and messages from outside may hold any of them.
 */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same without C0, which JSON escapes by itself, so that a line's own newline stays. */
const BEYOND_JSON = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** "\u001b[31m" with the escape character shown as the six characters that JSON would write. */
export function showControlCharacters(text: string): string {
	return text.replace(CONTROL, escaped);
}

/** The same JSON document, pure of what JSON leaves unescaped and a terminal might obey. */
export function escapeControlCharactersInJson(json: string): string {
	// Between strings JSON has nothing of the kind, so that each hit is inside one.
	return json.replace(BEYOND_JSON, escaped);
}

function escaped(character: string): string {
	// By code unit, as JSON does: a character beyond the basic plane is two.
	return Array.from(
		{ length: character.length },
		(_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
	).join("");
}
