import { accessSync, closeSync, constants, openSync, readFileSync, writeSync } from "node:fs";
import { errorCode } from "../shared/errors.ts";

/** A number that was read, or why there is none: "ENOENT", "EACCES", "no number". */
type Reading = { readonly value: number } | { readonly problem: string };

/** The kernel's files that hold one number each. The way to them for tests, too. */
export interface SettingFiles {
	/** Never throws. */
	read(path: string): Reading;
	/** Why it cannot be written ("EACCES", "EROFS"), or undefined: it can. Writes nothing, never throws. */
	writeProblem(path: string): string | undefined;
	/** @throws as `fs` does; what was there is still there. */
	write(path: string, value: number): void;
}

/** @param root what stands before every path: empty for the files of this host. */
export function settingFiles(root = ""): SettingFiles {
	return {
		read(path) {
			try {
				const text = readFileSync(root + path, "utf8").trim();
				return /^\d{1,15}$/.test(text) ? { value: Number(text) } : { problem: "no number" };
			} catch (error) {
				return { problem: codeOf(error) };
			}
		},
		writeProblem(path) {
			try {
				accessSync(root + path, constants.W_OK);
				return undefined;
			} catch (error) {
				return codeOf(error);
			}
		},
		write(path, value) {
			// Without O_CREAT: no file is made where the kernel has none.
			const file = openSync(root + path, constants.O_WRONLY | constants.O_TRUNC);
			try {
				writeSync(file, String(value));
			} finally {
				closeSync(file);
			}
		},
	};
}

function codeOf(error: unknown): string {
	return errorCode(error) ?? String(error);
}
