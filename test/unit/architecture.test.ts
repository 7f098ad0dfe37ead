import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";

const root = new URL("../../", import.meta.url);
const arrows = JSON.parse(readFileSync(new URL("rooms.json", root), "utf8")) as Record<
	string,
	string[]
>;

/** Room → rooms it may import, as the table in ARCHITECTURE.md has them. */
function documentedArrows(): Record<string, string[]> {
	const text = readFileSync(new URL("ARCHITECTURE.md", root), "utf8");
	const section = text.split("## Rooms and arrows")[1]?.split("\n## ")[0] ?? "";
	const rows = section.split("\n").filter((line) => line.startsWith("| `"));
	return Object.fromEntries(
		rows.map((row) => {
			const cells = row.split("|").map((cell) => cell.trim());
			const room = (cells[1] ?? "").replaceAll(/[`/]/g, "");
			const imports = (cells[4] ?? "").split(",").map((name) => name.trim());
			return [room, imports.filter((name) => /^[a-z]+$/.test(name))];
		}),
	);
}

function roomsOnDisk(): string[] {
	return readdirSync(new URL("src/", root), { withFileTypes: true })
		.filter((entry) => entry.isDirectory())
		.map((entry) => entry.name)
		.toSorted((a, b) => (a < b ? -1 : 1));
}

describe("the architecture", () => {
	it("ARCHITECTURE.md and the dependency check hold the same arrows", () => {
		expect(documentedArrows()).toEqual(arrows);
	});

	it("the rooms of the table are the folders under src/", () => {
		expect(roomsOnDisk()).toEqual(Object.keys(arrows).toSorted((a, b) => (a < b ? -1 : 1)));
	});

	it("ARCHITECTURE.md's picture names every room", () => {
		const text = readFileSync(new URL("ARCHITECTURE.md", root), "utf8");
		const picture = text.split("## The picture")[1]?.split("\n## ")[0] ?? "";
		const drawn = [...picture.matchAll(/^\s+([a-z]+)\/ {2,}/gm)].map((match) => match[1] ?? "");
		expect(drawn.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(roomsOnDisk());
	});

	it("the files that ARCHITECTURE.md names exist", () => {
		const text = readFileSync(new URL("ARCHITECTURE.md", root), "utf8");
		const named = [...text.matchAll(/`([a-z]+\/[a-z/-]+\.ts)`/g)].map((match) => match[1] ?? "");
		const missing = named.filter((path) => !exists(`src/${path}`) && !exists(path));
		expect(missing).toEqual([]);
	});
});

function exists(path: string): boolean {
	try {
		readFileSync(new URL(path, root));
		return true;
	} catch {
		return false;
	}
}
