import { isUtf8 } from "node:buffer";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, open, opendir, stat } from "node:fs/promises";
import { join } from "node:path";
import { describeError, errorCode } from "../../shared/errors.ts";

/** A folder with more manifests than this is refused as a whole: nobody means to have them. */
export const MAX_FILES = 4_096;

/** No text of a JavaScript string may be larger than 512 MiB; this is far below and far above need. */
export const MAX_FILE_BYTES = 64 * 1_024 * 1_024;

const MANIFEST_NAME = /^[^.].*\.(yaml|yml|json)$/s;

/** Files looked at together: enough to keep Node's four file threads busy. */
const BATCH = 32;

/** What tells one state of a file from another without reading it. */
export interface FileStamp {
	/** Device, inode, size and times: differs whenever the content may. */
	readonly key: string;
	readonly bytes: number;
	/** By the file system's clock, in milliseconds since the epoch. */
	readonly modifiedMs: number;
}

export type ListedFile =
	| { readonly path: string; readonly state: "file"; readonly stamp: FileStamp }
	/** There, but nothing that can be read as a manifest. */
	| { readonly path: string; readonly state: "refused"; readonly problem: string };

export type PathListing =
	| { readonly state: "absent" }
	| { readonly state: "unreadable"; readonly problem: string }
	| {
			readonly state: "listed";
			readonly isFolder: boolean;
			/** The device that holds it: another one when something was mounted or unmounted there. */
			readonly device: bigint;
			/** Sorted by name. */
			readonly files: readonly ListedFile[];
	  };

export type ReadResult =
	| { readonly state: "read"; readonly text: string }
	| { readonly state: "refused"; readonly problem: string }
	/** It is not, or no longer, what the stamp describes: to be looked at again. */
	| { readonly state: "changed" };

/**
 * The manifests that a path names: itself, or the *.yaml, *.yml and *.json directly in it.
 *
 * Hidden files are left out: editors' swap files, and the folders behind a mounted ConfigMap. Symbolic
 * links are followed. Never rejects.
 */
export async function listManifests(path: string): Promise<PathListing> {
	try {
		const stats = await stat(path, { bigint: true });
		if (!stats.isDirectory()) {
			// A pipe or device that an operator named is a slip, as a path is that is not there.
			if (!stats.isFile()) return { state: "unreadable", problem: "is not a regular file" };
			const files = [toListed(path, stats)];
			return { state: "listed", isFolder: false, device: stats.dev, files };
		}
		const names = await readNames(path);
		if (names.length > MAX_FILES) {
			const problem = `wanted at most ${MAX_FILES} manifests in one folder, found more`;
			return { state: "unreadable", problem };
		}
		return { state: "listed", isFolder: true, device: stats.dev, files: await lookAt(path, names) };
	} catch (error) {
		if (isAbsence(error)) return { state: "absent" };
		return { state: "unreadable", problem: describeError(error) };
	}
}

/** Reads a whole manifest as text, without its byte order mark. Never rejects, never hangs. */
export async function readManifest(path: string, stamp: FileStamp): Promise<ReadResult> {
	try {
		// Non-blocking, as a FIFO may have taken the file's place since it was listed.
		const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
		try {
			return await readOpen(handle, stamp);
		} finally {
			await handle.close();
		}
	} catch (error) {
		if (isAbsence(error)) return { state: "changed" };
		return { state: "refused", problem: describeError(error) };
	}
}

async function readNames(folder: string): Promise<readonly string[]> {
	const names: string[] = [];
	for await (const { name } of await opendir(folder)) {
		if (MANIFEST_NAME.test(name)) names.push(name);
		if (names.length > MAX_FILES) break;
	}
	return names.sort((a, b) => (a < b ? -1 : 1));
}

async function lookAt(folder: string, names: readonly string[]): Promise<readonly ListedFile[]> {
	const files: ListedFile[] = [];
	for (let from = 0; from < names.length; from += BATCH) {
		const batch = names.slice(from, from + BATCH).map((name) => lookAtOne(join(folder, name)));
		// oxlint-disable-next-line no-await-in-loop -- in batches, so that a large folder takes few buffers
		for (const file of await Promise.all(batch)) if (file !== undefined) files.push(file);
	}
	return files;
}

/** @returns undefined for a file that went away since its name was read. */
async function lookAtOne(path: string): Promise<ListedFile | undefined> {
	try {
		return toListed(path, await stat(path, { bigint: true }));
	} catch (error) {
		if (!isAbsence(error)) return { path, state: "refused", problem: describeError(error) };
		const link = await lstat(path).catch(() => undefined);
		if (link === undefined) return undefined;
		return { path, state: "refused", problem: "is a symbolic link that leads nowhere" };
	}
}

function toListed(path: string, stats: BigIntStats): ListedFile {
	if (stats.isDirectory()) return { path, state: "refused", problem: "is a folder, not a file" };
	if (!stats.isFile()) return { path, state: "refused", problem: "is not a regular file" };
	return { path, state: "file", stamp: toStamp(stats) };
}

function toStamp(stats: BigIntStats): FileStamp {
	const { dev, ino, size, mtimeNs, ctimeNs } = stats;
	const key = `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
	return { key, bytes: Number(size), modifiedMs: Number(mtimeNs / 1_000_000n) };
}

async function readOpen(handle: FileHandle, stamp: FileStamp): Promise<ReadResult> {
	const before = await handle.stat({ bigint: true });
	if (!before.isFile() || toStamp(before).key !== stamp.key) return { state: "changed" };
	if (stamp.bytes > MAX_FILE_BYTES) {
		const problem = `wanted at most ${MAX_FILE_BYTES} bytes, got ${stamp.bytes}`;
		return { state: "refused", problem };
	}
	const bytes = await readBytes(handle, stamp.bytes);
	const after = await handle.stat({ bigint: true });
	if (bytes.length !== stamp.bytes || toStamp(after).key !== stamp.key) return { state: "changed" };
	return decode(bytes);
}

/** At most one byte more than expected, which tells that the file has grown. */
async function readBytes(handle: FileHandle, expected: number): Promise<Buffer> {
	const buffer = Buffer.allocUnsafe(expected + 1);
	let length = 0;
	while (length < buffer.length) {
		// oxlint-disable-next-line no-await-in-loop -- the next read begins where this one ended
		const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
		if (bytesRead === 0) break;
		length += bytesRead;
	}
	return buffer.subarray(0, length);
}

function decode(bytes: Buffer): ReadResult {
	if (!isUtf8(bytes)) return { state: "refused", problem: "is not UTF-8 text" };
	if (bytes.includes(0))
		return { state: "refused", problem: "holds a zero byte, so it is no text" };
	return { state: "read", text: new TextDecoder().decode(bytes) };
}

function isAbsence(error: unknown): boolean {
	const code = errorCode(error);
	return code === "ENOENT" || code === "ENOTDIR";
}
