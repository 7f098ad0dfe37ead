import { describe, expect, it } from "vitest";
import type { ListedFile } from "../../../../src/sources/manifests/manifest-files.ts";
import { Rest } from "../../../../src/sources/manifests/rest.ts";

/** The wall clock of these tests; files are as old as it says. */
const WALL_MS = 1_000_000;

const at = (monotonicMs: number) => ({ monotonicMs, wallMs: WALL_MS });

function aFile(key: string, { bytes = 10, ageMs = 0 } = {}): ListedFile {
	return { path: "/a.yaml", state: "file", stamp: { key, bytes, modifiedMs: WALL_MS - ageMs } };
}

describe("Rest", () => {
	it("is restless until a file has been the same for the time", () => {
		const rest = new Rest(250);
		expect(rest.see(aFile("1"), false, at(0))).toBe("restless");
		expect(rest.see(aFile("1"), false, at(249))).toBe("restless");
		expect(rest.see(aFile("2"), false, at(250))).toBe("restless");
		expect(rest.see(aFile("2"), false, at(499))).toBe("restless");
		expect(rest.see(aFile("2"), false, at(500))).toBe("ready");
	});

	it("knows what was taken until it changes", () => {
		const rest = new Rest(250);
		rest.see(aFile("1"), false, at(0));
		rest.see(aFile("1"), false, at(250));
		rest.taken();
		expect(rest.see(aFile("1"), true, at(300))).toBe("known");
		expect(rest.see(aFile("2"), true, at(400))).toBe("restless");
		expect(rest.see(aFile("1"), true, at(500))).toBe("known");
	});

	it("gives what was forgotten at once, but what has changed since only when it has rested", () => {
		const rest = new Rest(250);
		rest.see(aFile("1", { ageMs: 999 }), false, at(0));
		rest.taken();
		rest.forget();
		expect(rest.see(aFile("2"), true, at(20_000))).toBe("restless");
		expect(rest.see(aFile("1"), true, at(20_100))).toBe("ready");
		rest.taken();
		expect(rest.see(aFile("1"), true, at(20_200))).toBe("known");
	});

	it("takes at first sight what has not been changed for the time", () => {
		expect(new Rest(250).see(aFile("1", { ageMs: 250 }), false, at(0))).toBe("ready");
		expect(new Rest(250).see(aFile("1", { ageMs: 249 }), false, at(0))).toBe("restless");
	});

	it("waits out a file of which the clock says that it comes from the future", () => {
		const rest = new Rest(250);
		expect(rest.see(aFile("1", { ageMs: -9_999_999 }), false, at(0))).toBe("restless");
		expect(rest.see(aFile("1", { ageMs: -9_999_999 }), false, at(250))).toBe("ready");
	});

	it.each([
		["emptied", aFile("2", { bytes: 0, ageMs: 999 })],
		["gone", undefined],
		["unreadable", { path: "/a.yaml", state: "refused", problem: "EIO" } as const],
	])("waits longer for a file that is %s and had objects", (_what, file) => {
		const rest = new Rest(250);
		rest.see(aFile("1", { ageMs: 999 }), false, at(0));
		rest.taken();
		expect(rest.see(file, true, at(100))).toBe("restless");
		expect(rest.see(file, true, at(1_099))).toBe("restless");
		expect(rest.see(file, true, at(1_100))).toBe("ready");
	});

	it("takes a file that never rests in the end", () => {
		const rest = new Rest(250);
		const looks = Array.from({ length: 102 }, (_, index) =>
			rest.see(aFile(`${index}`), true, at(index * 100)),
		);
		expect(looks.indexOf("ready")).toBe(100);
		expect(rest.isOverdue(at(9_999))).toBe(false);
		expect(rest.isOverdue(at(10_000))).toBe(true);
	});
});
