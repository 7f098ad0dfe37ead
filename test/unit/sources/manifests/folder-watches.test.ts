import { EventEmitter } from "node:events";
import type { FSWatcher } from "node:fs";
import { mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { FolderWatches } from "../../../../src/sources/manifests/folder-watches.ts";
import { aCapturedLog } from "../../observe/captured-log.ts";
import { aFolder } from "./source-kit.ts";

/** Watches that are made and closed, but see nothing by themselves. */
class FakeWatcher extends EventEmitter {
	closed = false;

	close(): void {
		this.closed = true;
	}
}

function someWatches() {
	const { log, lines } = aCapturedLog();
	const made: {
		readonly folder: string;
		readonly watcher: FakeWatcher;
		readonly tell: (name: string) => void;
	}[] = [];
	const events: string[] = [];
	let failure: Error | undefined;
	const watches = new FolderWatches({
		onEvent: (folder, name) => events.push(`${basename(folder)} ${name}`),
		log,
		watch: (folder, listener) => {
			if (failure !== undefined) throw failure;
			const watcher = new FakeWatcher();
			made.push({ folder, watcher, tell: (name) => listener("rename", name) });
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all that is used of it
			return watcher as unknown as FSWatcher;
		},
	});
	return {
		watches,
		made,
		events,
		lines,
		open: () => made.filter(({ watcher }) => !watcher.closed).map(({ folder }) => folder),
		fail: (error: Error | undefined) => {
			failure = error;
		},
	};
}

describe("FolderWatches", () => {
	it("watches each folder once, lets go of those not wanted, and of all at the end", async () => {
		const [a, b] = [aFolder(), aFolder()];
		const { watches, open, made } = someWatches();
		await watches.update(new Set([a]));
		await watches.update(new Set([a, b]));
		expect(open()).toEqual([a, b]);
		expect(made).toHaveLength(2);
		await watches.update(new Set([b]));
		expect(open()).toEqual([b]);
		watches.close();
		watches.close();
		expect(open()).toEqual([]);
		await watches.update(new Set([a]));
		expect(open()).toEqual([]);
	});

	it("waits for a folder that is not there without a word", async () => {
		const folder = join(aFolder(), "late");
		const { watches, open, lines } = someWatches();
		await watches.update(new Set([folder]));
		expect(open()).toEqual([]);
		mkdirSync(folder);
		await watches.update(new Set([folder]));
		expect(open()).toEqual([folder]);
		rmSync(folder, { recursive: true });
		await watches.update(new Set([folder]));
		expect(open()).toEqual([]);
		expect(lines).toEqual([]);
	});

	it("tells events, and watches anew what told its own end or failed", async () => {
		const folder = aFolder();
		const { watches, open, made, events } = someWatches();
		await watches.update(new Set([folder]));
		made[0]?.tell("x.yaml");
		expect(open()).toEqual([folder]);
		made[0]?.tell(basename(folder));
		expect(open()).toEqual([]);
		expect(events).toEqual([
			`${basename(folder)} x.yaml`,
			`${basename(folder)} ${basename(folder)}`,
		]);
		await watches.update(new Set([folder]));
		made[1]?.watcher.emit("error", new Error("gone"));
		expect(open()).toEqual([]);
		await watches.update(new Set([folder]));
		expect(made).toHaveLength(3);
	});

	it.each([
		["ENOSPC", "fs.inotify.max_user_watches"],
		["EMFILE", "fs.inotify.max_user_instances"],
	])(
		"says once at %s that it cannot, with the way out, and once that it can again",
		async (code, hint) => {
			const folder = aFolder();
			const { watches, open, lines, fail } = someWatches();
			fail(Object.assign(new Error(`${code}: limit`), { code }));
			await watches.update(new Set([folder]));
			await watches.update(new Set([folder]));
			fail(undefined);
			await watches.update(new Set([folder]));
			expect(open()).toEqual([folder]);
			expect(lines.map(({ level }) => level)).toEqual(["warn", "info"]);
			expect(lines[0]?.fields["error"]).toContain(hint);
		},
	);
});
