import { resolve } from "node:path";
import type { Snapshot } from "../../services/objects.ts";
import { oneLine } from "../one-line.ts";
import { combineFiles, type FileObjects } from "./combine-files.ts";
import { describeProblems } from "./describe-problems.ts";
import { type ListedFile, listManifests, readManifest } from "./manifest-files.ts";
import { parseManifest } from "./parse-manifest.ts";

export interface ManifestsOnce {
	/** What is good; see `problems` for the rest. */
	readonly snapshot: Snapshot;
	/** One line each, as a person would want to read it; empty when all is well. */
	readonly problems: readonly string[];
}

/** Reads files and folders as they are now, without watching them. Never rejects. */
export async function readManifestsOnce(
	paths: readonly string[],
	nodeName: string,
): Promise<ManifestsOnce> {
	const problems: string[] = [];
	const files = new Map<string, FileObjects>();
	for (const path of new Set(paths.map((each) => resolve(each)))) {
		// oxlint-disable-next-line no-await-in-loop -- in the order that decides between equal objects
		for (const file of await listOnce(path, problems)) {
			if (files.has(file.path)) continue;
			// oxlint-disable-next-line no-await-in-loop -- one after the other holds one text at a time
			files.set(file.path, await readOnce(file, nodeName, problems));
		}
	}
	const { snapshot, duplicates } = combineFiles(files.values());
	for (const { object, used, leftOut } of duplicates) {
		problems.push(`${leftOut}: ${object} is there already in ${used}, which counts`);
	}
	return { snapshot, problems: problems.map((text) => oneLine(text, 2_000)) };
}

async function listOnce(path: string, problems: string[]): Promise<readonly ListedFile[]> {
	const listing = await listManifests(path);
	if (listing.state === "listed") return listing.files;
	problems.push(`${path}: ${listing.state === "absent" ? "is not there" : listing.problem}`);
	return [];
}

async function readOnce(
	file: ListedFile,
	nodeName: string,
	problems: string[],
): Promise<FileObjects> {
	const { path } = file;
	const read = file.state === "file" ? await readManifest(path, file.stamp) : file;
	if (read.state !== "read") {
		problems.push(`${path}: ${read.state === "refused" ? read.problem : "is being changed"}`);
		return { path, objects: [] };
	}
	const parsed = parseManifest(read.text, nodeName);
	if (parsed.problems.length > 0) problems.push(`${path}: ${describeProblems(parsed.problems)}`);
	return { path, objects: parsed.objects };
}
