import { expect, test as it } from "vitest";
import { formatTable } from "../../../src/cli/table.ts";

it("formatTable() aligns columns and leaves no blanks at the ends of lines", () => {
	const rows = [
		["a", "1", "x"],
		["long", "100", ""],
	];
	expect(formatTable(["NAME", "N", "LAST"], rows, ["left", "right", "left"])).toBe(
		["NAME    N  LAST", "a       1  x", "long  100", ""].join("\n"),
	);
});

it("formatTable() shows what a terminal might obey", () => {
	expect(formatTable(["A"], [["\u001b[2J"]])).toBe("A\n\\u001b[2J\n");
});
