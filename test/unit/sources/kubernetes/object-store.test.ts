import { describe, expect, test as it } from "vitest";
import type { Admission } from "../../../../src/services/admission.ts";
import { type Log, silentLog } from "../../../../src/shared/log.ts";
import { ObjectStore, one } from "../../../../src/sources/kubernetes/object-store.ts";
import { isRecord } from "../../../../src/sources/kubernetes/records.ts";

/** Takes any `value` but "bad…", of which it says what it got. */
function admit(raw: unknown): Admission<string> {
	const value = isRecord(raw) ? String(raw["value"]) : "";
	if (value === "throw") throw new Error("a bug");
	if (!value.startsWith("bad")) return { admitted: true, object: value };
	return { admitted: false, problems: [{ field: "value", message: `got ${value}` }] };
}

function aStore() {
	const lines: string[] = [];
	const at = (level: string) => (fields: object, message: string) => {
		lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
	};
	const log: Log = { ...silentLog, warn: at("warn"), info: at("info") };
	const reading = { kind: "Thing", admit: one(admit) };
	return { lines, reading, store: new ObjectStore<string>(reading, log) };
}

function thing(name: string, value: string, version = "1") {
	return { metadata: { name, namespace: "ns", uid: "u", resourceVersion: version }, value };
}

describe("ObjectStore", () => {
	it("keeps the newest of each key (classic 9.5.5, 9.7.7)", () => {
		const { store } = aStore();
		expect(store.put(thing("a", "1"))).toBe(true);
		expect(store.put(thing("a", "2", "2"))).toBe(true);
		expect([...store.objects()]).toEqual(["2"]);
		expect(store.remove(thing("a", "2", "2"))).toBe(true);
		expect(store.remove(thing("a", "2", "2"))).toBe(false);
		expect([...store.objects()]).toEqual([]);
	});

	it("says what is wrong once, anew when it changes, and when it is over", () => {
		const { store, lines } = aStore();
		store.put(thing("a", "good"));
		store.put(thing("a", "bad1", "2"));
		store.put(thing("a", "bad1", "3"));
		store.put(thing("a", "bad2", "4"));
		expect([...store.objects()]).toEqual([]);
		expect(store.rejected()).toEqual([{ object: "Thing ns/a", problems: ["value: got bad2"] }]);
		store.put(thing("a", "good", "5"));
		expect(store.rejected()).toEqual([]);
		expect(lines).toEqual([
			'warn object left out {"object":"Thing ns/a","problems":["value: got bad1"]}',
			'warn object left out {"object":"Thing ns/a","problems":["value: got bad2"]}',
			'info object is fine again {"object":"Thing ns/a"}',
		]);
	});

	it("names a hundred refused objects, and says that there are more", () => {
		const { store, lines } = aStore();
		for (let index = 0; index < 150; index += 1) store.put(thing(`a${index}`, "bad"));
		expect(store.rejected()).toHaveLength(100);
		expect(lines).toHaveLength(101);
		expect(lines.at(-1)).toContain("more objects left out than are named");
	});

	it("leaves out an object on which the admission throws, and one without a name (case 8e)", () => {
		const { store, lines } = aStore();
		store.put(thing("a", "throw"));
		store.put({ value: "nameless" });
		store.put(null);
		expect([...store.objects()]).toEqual([]);
		expect(lines).toEqual([
			'warn object left out {"object":"Thing ns/a","problems":["cannot be checked: a bug"]}',
			'warn object without a name left out {"kind":"Thing"}',
		]);
	});

	it("cuts what comes from outside to a line of sane length", () => {
		const { store } = aStore();
		store.put(thing("a", `bad\n\u001b[31m${"x".repeat(2_000)}`));
		const [rejected] = store.rejected();
		expect(rejected?.problems[0]).not.toMatch(/\p{Cc}/u);
		expect(rejected?.problems[0]?.length).toBeLessThan(310);
	});

	it("a list takes the place of the state only at its commit, and prunes", () => {
		const { store, reading } = aStore();
		store.put(thing("a", "1"));
		store.put(thing("b", "bad"));
		const list = store.beginList(reading);
		list.put(thing("c", "3"));
		list.put(thing("d", "4"));
		list.remove(thing("d", "4"));
		expect([...store.objects()]).toEqual(["1"]);
		expect(list.commit()).toBe(true);
		expect([...store.objects()]).toEqual(["3"]);
		expect(store.rejected()).toEqual([]);
	});

	it("a list of the same objects changes nothing", () => {
		const { store, reading } = aStore();
		store.beginList(reading).commit();
		store.put(thing("a", "1"));
		const list = store.beginList(reading);
		list.put(thing("a", "1"));
		expect(list.commit()).toBe(false);
	});

	it("a list read in another way reads each object anew", () => {
		const { store } = aStore();
		store.put(thing("a", "1"));
		const list = store.beginList({
			kind: "Other",
			admit: () => ({ admitted: true, object: ["x", "y"] }),
		});
		list.put(thing("a", "1"));
		expect(list.commit()).toBe(true);
		expect([...store.objects()]).toEqual(["x", "y"]);
	});
});
