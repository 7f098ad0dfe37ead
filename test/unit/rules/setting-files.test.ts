import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test as it } from "vitest";
import { settingFiles } from "../../../src/rules/setting-files.ts";

let root = "";
beforeEach(() => {
	root = mkdtempSync(join(tmpdir(), "kup-settings-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function place(path: string, text: string): void {
	mkdirSync(dirname(root + path), { recursive: true });
	writeFileSync(root + path, text);
}

it("settingFiles() reads and writes numbers under its root", () => {
	place("/proc/sys/a", "65536\n");
	const files = settingFiles(root);
	expect(files.read("/proc/sys/a")).toEqual({ value: 65_536 });
	expect(files.writeProblem("/proc/sys/a")).toBeUndefined();
	files.write("/proc/sys/a", 131_072);
	expect(files.read("/proc/sys/a")).toEqual({ value: 131_072 });
	files.write("/proc/sys/a", 60);
	expect(files.read("/proc/sys/a")).toEqual({ value: 60 });
});

it("settingFiles() says why there is no number, and makes no file that was not there", () => {
	place("/proc/sys/b", "many\n");
	const files = settingFiles(root);
	expect(files.read("/proc/sys/b")).toEqual({ problem: "no number" });
	expect(files.read("/none")).toEqual({ problem: "ENOENT" });
	expect(files.writeProblem("/none")).toBe("ENOENT");
	expect(() => files.write("/none", 1)).toThrow("ENOENT");
	expect(() => readFileSync(`${root}/none`)).toThrow("ENOENT");
});
