import { mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { ManifestPath } from "../../../../src/sources/manifests/manifest-path.ts";
import { aCapturedLog } from "../../observe/captured-log.ts";
import { aFolder, aService } from "./source-kit.ts";

const SETTLE_MS = 250;

/** A path that is looked at at given times, each look much later than the files' own times. */
function aPath(path: string) {
	const { log, lines } = aCapturedLog();
	const manifests = new ManifestPath(path, {
		nodeName: "node1",
		settleMs: SETTLE_MS,
		log,
		clock: systemClock,
	});
	return {
		manifests,
		lines,
		errors: () => lines.filter(({ level }) => level === "error"),
		look: (monotonicMs: number, claimed = new Set<string>()) =>
			manifests.scan(
				claimed,
				{ monotonicMs, wallMs: Date.now() + 60_000 },
				new AbortController().signal,
			),
		keys: () =>
			manifests.files.flatMap(({ state }) => (state?.objects ?? []).map(({ key }) => key)),
	};
}

describe("ManifestPath", () => {
	it("says nothing of a file that is away for a moment, as when it is replaced", async () => {
		const file = join(aFolder(), "a.yaml");
		writeFileSync(file, aService("a"));
		const { look, keys, errors } = aPath(file);
		await look(0);
		rmSync(file);
		expect(await look(1_000)).toEqual({ changed: false, restless: true, fresh: false });
		writeFileSync(file, aService("b"));
		expect(await look(1_100)).toEqual({ changed: true, restless: false, fresh: true });
		expect(keys()).toEqual(["shop/b"]);
		expect(errors()).toEqual([]);
	});

	it("keeps the state of a path that stays away, and says so once", async () => {
		const file = join(aFolder(), "a.yaml");
		writeFileSync(file, aService("a"));
		const { look, keys, errors, manifests } = aPath(file);
		await look(0);
		rmSync(file);
		await look(1_000);
		for (const at of [1_250, 2_000, 60_000]) {
			// oxlint-disable-next-line no-await-in-loop -- one look after the other
			expect(await look(at)).toEqual({ changed: false, restless: false, fresh: false });
		}
		expect(keys()).toEqual(["shop/a"]);
		expect(errors()).toHaveLength(1);
		expect(manifests.problem).toBe(`${file} is not there; its last state stays in force`);
	});

	it("keeps the state of a folder that looks unmounted: empty, and on another device", async () => {
		const [disk, memory] = [aFolder(), aFolder("/dev/shm")];
		expect(statSync(disk).dev).not.toBe(statSync(memory).dev);
		writeFileSync(join(disk, "a.yaml"), aService("a"));
		const link = join(aFolder(), "manifests");
		symlinkSync(disk, link);
		const { look, keys, manifests } = aPath(link);
		await look(0);
		rmSync(link);
		symlinkSync(memory, link);
		await look(1_000);
		await look(60_000);
		expect(keys()).toEqual(["shop/a"]);
		expect(manifests.problem).toContain("is empty and on another device; its last state stays");
		writeFileSync(join(memory, "b.yaml"), aService("b"));
		await look(61_000);
		await look(62_000);
		expect(keys()).toEqual(["shop/b"]);
		expect(manifests.problem).toBeUndefined();
	});

	it("keeps a file that leaves a folder for a second, then lets it go", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		writeFileSync(join(folder, "b.yaml"), aService("b"));
		const { look, keys } = aPath(folder);
		await look(0);
		rmSync(join(folder, "a.yaml"));
		await look(1_000);
		await look(1_999);
		expect(keys()).toEqual(["shop/a", "shop/b"]);
		expect((await look(2_000)).changed).toBe(true);
		expect(keys()).toEqual(["shop/b"]);
	});

	it("is complete once everything in it was read, bad files too", async () => {
		const folder = join(aFolder(), "manifests");
		const { look, manifests } = aPath(folder);
		await look(0);
		expect(manifests.isComplete).toBe(false);
		mkdirSync(folder);
		writeFileSync(join(folder, "a.yaml"), "[");
		mkdirSync(join(folder, "b.yaml"));
		// What is no file has no time of its own, so that it must be seen twice.
		expect((await look(1_000)).restless).toBe(true);
		expect(manifests.isComplete).toBe(false);
		await look(1_250);
		expect(manifests.isComplete).toBe(true);
	});

	it("tells no change when a file comes and goes before it was read", async () => {
		const folder = aFolder();
		const { look, manifests, lines } = aPath(folder);
		await look(0);
		writeFileSync(join(folder, "a.yaml"), "");
		expect((await look(1_000)).restless).toBe(true);
		rmSync(join(folder, "a.yaml"));
		await look(1_100);
		expect(await look(1_350)).toEqual({ changed: false, restless: false, fresh: true });
		expect(manifests.files).toEqual([]);
		expect(lines).toEqual([]);
	});

	it("leaves alone what an earlier path has read", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { look, keys, manifests } = aPath(join(folder, "a.yaml"));
		await look(0, new Set([join(folder, "a.yaml")]));
		expect(keys()).toEqual([]);
		expect(manifests.isComplete).toBe(true);
	});
});
