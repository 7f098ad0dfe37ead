import { describe, expect, it } from "vitest";
import {
	nextFileState,
	unreadableFileState,
} from "../../../../src/sources/manifests/file-state.ts";
import { parseManifest } from "../../../../src/sources/manifests/parse-manifest.ts";
import { aService } from "./source-kit.ts";

const parse = (...documents: readonly string[]) => parseManifest(documents.join("---\n"), "node1");
const GOOD = parse(aService("a"), aService("b"));
const BAD = parse(aService("c"), aService("d", 0));
const keys = (state: { readonly objects: readonly { readonly key: string }[] }) =>
	state.objects.map(({ key }) => key);

describe("nextFileState()", () => {
	it("takes a good version", () => {
		const state = nextFileState(undefined, GOOD);
		expect(state).toMatchObject({ problems: [], wasGood: true, isKept: false });
		expect(keys(state)).toEqual(["shop/a", "shop/b"]);
	});

	it("keeps the last good version when the next is bad, however often", () => {
		const good = nextFileState(undefined, GOOD);
		const bad = nextFileState(nextFileState(good, BAD), parse("["));
		expect(bad.objects).toBe(good.objects);
		expect(bad.isKept).toBe(true);
		expect(bad.problems).toEqual(parse("[").problems);
	});

	it("takes the good objects of a version that is bad where none was good", () => {
		const state = nextFileState(nextFileState(undefined, parse(aService("x", 0))), BAD);
		expect(keys(state)).toEqual(["shop/c"]);
		expect(state).toMatchObject({ problems: BAD.problems, wasGood: false, isKept: false });
	});

	it("takes nothing away for a version that cannot even be read, also where none was good", () => {
		const bad = nextFileState(undefined, BAD);
		const torn = nextFileState(bad, parse("["));
		expect(torn.objects).toBe(bad.objects);
		expect(torn).toMatchObject({ wasGood: false, isKept: true });
		expect(keys(nextFileState(bad, parse(aService("e"), "[")))).toEqual(["shop/e", "shop/c"]);
		expect(keys(nextFileState(torn, parse(aService("e"), aService("d", 0))))).toEqual(["shop/e"]);
	});

	it("takes a good version after bad ones and forgets what was kept", () => {
		const kept = nextFileState(nextFileState(undefined, GOOD), BAD);
		const state = nextFileState(kept, parse(aService("c")));
		expect(keys(state)).toEqual(["shop/c"]);
		expect(state).toMatchObject({ problems: [], isKept: false });
	});

	it("gives the very same objects for what did not change", () => {
		const before = nextFileState(undefined, GOOD);
		expect(nextFileState(before, parse(aService("a"), aService("b"))).objects).toBe(before.objects);
		const after = nextFileState(before, parse(aService("new"), aService("b"), aService("a", 81)));
		expect(after.objects[1]).toMatchObject({ document: 2, key: "shop/b" });
		expect(after.objects[1]?.value).toBe(before.objects[1]?.value);
		expect(after.objects[2]?.value).not.toEqual(before.objects[0]?.value);
	});
});

describe("unreadableFileState()", () => {
	it("keeps whatever there was, good or not", () => {
		for (const version of [GOOD, BAD]) {
			const before = nextFileState(undefined, version);
			const state = unreadableFileState(before, "EACCES: permission denied");
			expect(state.objects).toBe(before.objects);
			expect(state.isKept).toBe(true);
			expect(state.problems[0]?.faults[0]?.text).toBe("EACCES: permission denied");
		}
	});

	it("has no objects where there was nothing", () => {
		expect(unreadableFileState(undefined, "x")).toMatchObject({ objects: [], isKept: false });
	});
});
