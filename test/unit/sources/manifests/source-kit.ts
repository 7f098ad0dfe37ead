import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, vi } from "vitest";
import {
	createManifestSource,
	type ManifestSourceOptions,
} from "../../../../src/sources/manifests/manifest-source.ts";
import type { Source } from "../../../../src/sources/source.ts";
import { aCapturedLog, type CapturedLine } from "../../observe/captured-log.ts";

/** Polling is off for practical purposes: what a test sees, a watch has told. */
const FAST = { gatherMs: 5, settleMs: 20, pollMs: 600_000 };

export interface RunningSource {
	readonly source: Source;
	readonly lines: readonly CapturedLine[];
	/** How often a change was told. */
	readonly changes: () => number;
	/** "shop/cart": the names of the Services there are now. */
	readonly services: () => readonly string[];
	readonly stop: () => Promise<void>;
}

/** A folder of its own, gone after the test. */
export function aFolder(parent: string = tmpdir()): string {
	const folder = mkdtempSync(join(parent, "manifests-"));
	onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
	return folder;
}

/** Started; stopped after the test. */
export function aSource(
	paths: readonly string[],
	options: Partial<ManifestSourceOptions> = {},
	onChange: () => void = () => {},
): RunningSource {
	const { log, lines } = aCapturedLog();
	const abort = new AbortController();
	let changes = 0;
	const source = createManifestSource({
		paths,
		nodeName: "node1",
		log,
		...options,
		timing: { ...FAST, ...options.timing },
	});
	source.start(() => {
		changes += 1;
		onChange();
	}, abort.signal);
	const stop = async () => {
		abort.abort();
		await source.closed();
	};
	onTestFinished(stop);
	return {
		source,
		lines,
		changes: () => changes,
		services: () => [...source.snapshot().services.keys()],
		stop,
	};
}

/** Waits for the assertions in `check` to hold. */
export async function eventually(check: () => void): Promise<void> {
	await vi.waitFor(check, { timeout: 8_000, interval: 5 });
}

/** A good Service as YAML. */
export function aService(name: string, port: number | string = 80): string {
	return [
		"apiVersion: v1",
		"kind: Service",
		`metadata: {name: ${name}, namespace: shop}`,
		"spec:",
		"  clusterIP: 10.96.0.10",
		`  ports: [{name: http, port: ${port}}]`,
		"",
	].join("\n");
}

/** As kubelet mounts a ConfigMap: links to ..data/NAME, and ..data a link to a folder. */
export function writeConfigMap(
	mount: string,
	version: string,
	files: Record<string, string>,
): void {
	const folder = join(mount, `..${version}`);
	mkdirSync(folder);
	for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
	symlinkSync(`..${version}`, join(mount, "..data_tmp"));
	renameSync(join(mount, "..data_tmp"), join(mount, "..data"));
}

export function makeFifo(path: string): void {
	execFileSync("mkfifo", [path]);
}
