import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
	listManifests,
	MAX_FILE_BYTES,
	MAX_FILES,
	type ReadResult,
	readManifest,
} from "../../../../src/sources/manifests/manifest-files.ts";
import { aFolder, makeFifo } from "./source-kit.ts";

async function readOf(path: string): Promise<ReadResult> {
	const listing = await listManifests(path);
	const file = listing.state === "listed" ? listing.files[0] : undefined;
	if (file?.state !== "file") throw new TypeError(`no file: ${JSON.stringify(file?.problem)}`);
	return await readManifest(path, file.stamp);
}

async function refusedIn(folder: string): Promise<Record<string, string>> {
	const listing = await listManifests(folder);
	if (listing.state !== "listed") throw new TypeError(listing.state);
	return Object.fromEntries(
		listing.files.flatMap((file) =>
			file.state === "refused" ? [[file.path.slice(folder.length + 1), file.problem]] : [],
		),
	);
}

describe("listManifests()", () => {
	it("lists manifests by name, without hidden ones, and follows links", async () => {
		const folder = aFolder();
		for (const name of ["b.yaml", "a.json", "C.yml", ".d.yaml", "e.yaml~", "f.txt", "yaml"]) {
			writeFileSync(join(folder, name), "");
		}
		symlinkSync("f.txt", join(folder, "link.yaml"));
		const listing = await listManifests(folder);
		expect(listing).toMatchObject({ state: "listed", isFolder: true });
		expect(listing.state === "listed" && listing.files.map(({ path }) => path)).toEqual(
			["C.yml", "a.json", "b.yaml", "link.yaml"].map((name) => join(folder, name)),
		);
	});

	it("lists one file, whatever its name", async () => {
		const path = join(aFolder(), "manifests");
		writeFileSync(path, "");
		expect(await listManifests(path)).toMatchObject({
			state: "listed",
			isFolder: false,
			files: [{ path, state: "file" }],
		});
	});

	it("tells absent from unreadable", async () => {
		const folder = aFolder();
		makeFifo(join(folder, "fifo"));
		writeFileSync(join(folder, "file"), "");
		symlinkSync("loop", join(folder, "loop"));
		expect(await listManifests(join(folder, "none"))).toEqual({ state: "absent" });
		expect(await listManifests(join(folder, "file", "none"))).toEqual({ state: "absent" });
		expect(await listManifests(join(folder, "fifo"))).toEqual({
			state: "unreadable",
			problem: "is not a regular file",
		});
		expect(await listManifests(join(folder, "loop"))).toMatchObject({
			state: "unreadable",
			problem: expect.stringContaining("ELOOP"),
		});
	});

	it("refuses folders, FIFOs, link loops and links that lead nowhere, each by itself", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "good.yaml"), "");
		mkdirSync(join(folder, "folder.yaml"));
		makeFifo(join(folder, "fifo.yaml"));
		symlinkSync("loop.yaml", join(folder, "loop.yaml"));
		symlinkSync("none", join(folder, "dangling.yaml"));
		expect(await refusedIn(folder)).toEqual({
			"dangling.yaml": "is a symbolic link that leads nowhere",
			"fifo.yaml": "is not a regular file",
			"folder.yaml": "is a folder, not a file",
			"loop.yaml": expect.stringContaining("ELOOP"),
		});
	});

	it("refuses a folder with too many manifests as a whole", async () => {
		const folder = aFolder();
		for (let n = 0; n <= MAX_FILES; n += 1) writeFileSync(join(folder, `${n}.yaml`), "");
		expect(await listManifests(folder)).toMatchObject({
			state: "unreadable",
			problem: `wanted at most ${MAX_FILES} manifests in one folder, found more`,
		});
	});
});

describe("readManifest()", () => {
	it("reads text, without its byte order mark", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, "\uFEFFa: ü");
		expect(await readOf(path)).toEqual({ state: "read", text: "a: ü" });
		writeFileSync(path, "");
		expect(await readOf(path)).toEqual({ state: "read", text: "" });
	});

	it.each([
		["another encoding", Buffer.from([0x61, 0xe4, 0x62]), "is not UTF-8 text"],
		["UTF-16", Buffer.from("\uFEFFa: b", "utf16le"), "is not UTF-8 text"],
		["a zero byte", Buffer.from("a\0b"), "holds a zero byte, so it is no text"],
	])("refuses %s", async (_what, bytes, problem) => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, bytes);
		expect(await readOf(path)).toEqual({ state: "refused", problem });
	});

	it("refuses a file that is too large without reading it", async () => {
		const path = join(aFolder(), "a.yaml");
		writeFileSync(path, "");
		truncateSync(path, MAX_FILE_BYTES + 1);
		expect(await readOf(path)).toEqual({
			state: "refused",
			problem: `wanted at most ${MAX_FILE_BYTES} bytes, got ${MAX_FILE_BYTES + 1}`,
		});
	});

	it("says that a file is not what was listed: changed, gone, or a FIFO in its place", async () => {
		const folder = aFolder();
		const path = join(folder, "a.yaml");
		writeFileSync(path, "a: 1");
		const listing = await listManifests(path);
		const file = listing.state === "listed" ? listing.files[0] : undefined;
		if (file?.state !== "file") throw new TypeError("no file");
		makeFifo(join(folder, "fifo"));
		writeFileSync(path, "a: 12");
		for (const each of [path, join(folder, "fifo"), join(folder, "none")]) {
			// oxlint-disable-next-line no-await-in-loop -- three short steps
			expect(await readManifest(each, file.stamp)).toEqual({ state: "changed" });
		}
	});

	it("says what keeps it from reading", async () => {
		const path = join(aFolder(), "x".repeat(300));
		const read = await readManifest(path, { key: "", bytes: 0, modifiedMs: 0 });
		expect(read).toMatchObject({
			state: "refused",
			problem: expect.stringContaining("ENAMETOOLONG"),
		});
	});
});
