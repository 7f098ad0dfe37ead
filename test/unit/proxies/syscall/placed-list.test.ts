import { describe, expect, test as it } from "vitest";
import { PlacedList } from "../../../../src/proxies/syscall/placed-list.ts";

function aList(...names: string[]) {
	const list = new PlacedList<{ readonly name: string; place: number }>();
	const items = names.map((name) => ({ name, place: -1 }));
	for (const item of items) list.add(item);
	const present = () => {
		const found: string[] = [];
		list.visitAll(({ name }) => found.push(name));
		return new Set(found);
	};
	return { list, items, present };
}

describe("PlacedList", () => {
	it("has what was added and not removed, whichever goes first", () => {
		for (const order of [
			[0, 1, 2],
			[2, 1, 0],
			[1, 0, 2],
		]) {
			const { list, items, present } = aList("a", "b", "c");
			const left = new Set(["a", "b", "c"]);
			for (const index of order) {
				const item = items[index];
				if (item === undefined) throw new Error("no such item");
				list.remove(item);
				left.delete(item.name);
				expect(present()).toEqual(left);
			}
			expect(list.size).toBe(0);
		}
	});

	it("visits each once, also where the visit removes it", () => {
		const { list, present } = aList("a", "b", "c", "d");
		const visited: string[] = [];
		list.visitAll((item) => {
			visited.push(item.name);
			if (item.name !== "b") list.remove(item);
		});
		expect(visited).toHaveLength(4);
		expect(new Set(visited)).toEqual(new Set(["a", "b", "c", "d"]));
		expect(present()).toEqual(new Set(["b"]));
	});
});
