import { showControlCharacters } from "../observe/control-characters.ts";

export type Align = "left" | "right";

/**
 * Rows in columns with two blanks between, the last column unpadded. Cells are plain text; what a
 * terminal might obey is shown.
 */
export function formatTable(
	head: readonly string[],
	rows: readonly (readonly string[])[],
	align: readonly Align[] = [],
): string {
	const lines = [head, ...rows.map((row) => row.map(showControlCharacters))];
	const widths = head.map((_, column) => Math.max(...lines.map((line) => widthOf(line, column))));
	return lines
		.map((line) => {
			const cells = head.map((_, column) => {
				const cell = line[column] ?? "";
				const width = widths[column] ?? 0;
				return align[column] === "right" ? cell.padStart(width) : cell.padEnd(width);
			});
			return `${cells.join("  ").trimEnd()}\n`;
		})
		.join("");
}

function widthOf(line: readonly string[], column: number): number {
	return line[column]?.length ?? 0;
}
