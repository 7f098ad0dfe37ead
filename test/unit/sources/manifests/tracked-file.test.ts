import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import {
	type ListedFile,
	listManifests,
} from "../../../../src/sources/manifests/manifest-files.ts";
import { TrackedFile } from "../../../../src/sources/manifests/tracked-file.ts";
import { aCapturedLog } from "../../observe/captured-log.ts";
import { aFolder, aService } from "./source-kit.ts";

async function listed(path: string): Promise<ListedFile> {
	const listing = await listManifests(path);
	const file = listing.state === "listed" ? listing.files[0] : undefined;
	if (file === undefined) throw new TypeError(`${path} is not listed`);
	return file;
}

/** A file that is looked at at given times, each long after it was written. */
function aFile(path: string, signal = new AbortController().signal) {
	const { log, lines } = aCapturedLog();
	const file = new TrackedFile(path, { nodeName: "node1", settleMs: 250, log, clock: systemClock });
	return {
		file,
		lines,
		keys: () => file.state?.objects.map(({ key }) => key),
		look: (seen: ListedFile | undefined, monotonicMs: number) =>
			file.look(seen, { monotonicMs, wallMs: Date.now() + 60_000 }, signal),
	};
}

describe("TrackedFile", () => {
	it("reads a file once, and again when it was forgotten", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, aService("a"));
		const { file, look, keys } = aFile(path);
		const seen = await listed(path);
		expect(await look(seen, 0)).toBe("changed");
		expect(keys()).toEqual(["shop/a"]);
		const { state } = file;
		expect(await look(seen, 1)).toBe("same");
		expect(file.state).toBe(state);
		file.forget();
		expect(await look(seen, 2)).toBe("same");
		expect(file.state).not.toBe(state);
		expect(file.state).toEqual(state);
	});

	it("does not take what is no longer as it was listed, and in the end says that it keeps changing", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, aService("a"));
		const { file, look, keys, lines } = aFile(path);
		await look(await listed(path), 0);
		const old = await listed(path);
		writeFileSync(path, aService("bb"));
		const stale: ListedFile = {
			...old,
			path,
			state: "file",
			stamp: { key: "x", bytes: 1, modifiedMs: 0 },
		};
		expect(await look(stale, 1_000)).toBe("restless");
		expect(await look(stale, 10_999)).toBe("restless");
		expect(lines).toEqual([]);
		expect(await look(stale, 11_000)).toBe("same");
		expect(keys()).toEqual(["shop/a"]);
		expect(lines).toMatchObject([
			{ level: "error", fields: { error: "keeps changing", file: path } },
		]);
		expect(await look(await listed(path), 12_000)).toBe("changed");
		expect(keys()).toEqual(["shop/bb"]);
		expect(file.state?.problems).toEqual([]);
	});

	it("is gone when it is away for long enough", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, aService("a"));
		const { look } = aFile(path);
		await look(await listed(path), 0);
		expect(await look(undefined, 100)).toBe("restless");
		expect(await look(undefined, 1_100)).toBe("gone");
	});

	it("says once what is wrong, and again when that changes", async () => {
		const path = join(aFolder(), "a.yaml");
		const { look, lines } = aFile(path);
		for (const [index, port] of [0, 0, 70_000].entries()) {
			writeFileSync(path, `# ${index}\n${aService("a", port)}`);
			// oxlint-disable-next-line no-await-in-loop -- one version after the other
			await look(await listed(path), index * 1_000);
		}
		expect(lines.map(({ fields }) => fields["error"])).toEqual([
			expect.stringContaining("got 0"),
			expect.stringContaining("got 70000"),
		]);
	});

	it("lets others work while it reads a large file, and stops at the abort", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, Array.from({ length: 400 }, (_, n) => aService(`a${n}`)).join("---\n"));
		const abort = new AbortController();
		const { file, look } = aFile(path, abort.signal);
		const looking = look(await listed(path), 0);
		setImmediate(() => abort.abort());
		expect(await looking).toBe("restless");
		expect(file.state).toBeUndefined();
	});
});
