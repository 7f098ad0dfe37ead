import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes an executable shell script `folder/plugin`. @returns its path. */
export function aPlugin(folder: string, script: string): string {
	const path = join(folder, "plugin");
	writeFileSync(path, `#!/bin/sh\n${script}\n`);
	chmodSync(path, 0o755);
	return path;
}

/** A kubeconfig's user who is what a plugin says. */
export function execUser(command: string, more: Readonly<Record<string, unknown>> = {}) {
	return { exec: { apiVersion: "client.authentication.k8s.io/v1", command, ...more } };
}

export interface HangingPlugin {
	readonly path: string;
	/** Of itself and its child; none before it is started, and those of the last one later. */
	pids(): readonly number[];
}

/** A plugin that hangs with a child, in `folder/plugin`. */
export function aHangingPlugin(folder: string): HangingPlugin {
	const file = join(folder, "pids");
	// Moved into its place, so that nobody reads half of it.
	const script = `sleep 300 &
echo $$ $! > ${file}.new && mv ${file}.new ${file}
wait`;
	const pids = (): readonly number[] => {
		try {
			return readFileSync(file, "utf8").trim().split(" ").map(Number);
		} catch {
			return [];
		}
	};
	return { path: aPlugin(folder, script), pids };
}

/** False for a zombie too: nobody may be there to reap an orphan. */
export function isAlive(pid: number): boolean {
	try {
		return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
	} catch {
		return false;
	}
}
