import { readFileSync } from "node:fs";
import { CLOSE_WAIT, ESTABLISHED, HASHSIZE, MAX } from "./setting-files.ts";

/*
 * Guards the host's own settings: a daemon that is started outside of a lab with its usual flags would
 * set them. vitest runs setup() before the first test of a run and teardown() after the last.
 */

let before: readonly string[] = [];

export function setup(): void {
	before = hostSettings();
}

/** @throws {Error} which fails the run. */
export function teardown(): void {
	const after = hostSettings();
	const changed = after.filter((line, index) => line !== before[index]);
	if (changed.length === 0) return;
	throw new Error(
		`The host's own settings were changed while the tests ran: wanted ${before.join(", ")}, got ${changed.join(", ")}`,
	);
}

/** What no test may change, outside of a lab: "/proc/sys/...=65536". */
export function hostSettings(): readonly string[] {
	return [MAX, HASHSIZE, ESTABLISHED, CLOSE_WAIT].map((path) => `${path}=${textOf(path)}`);
}

function textOf(path: string): string {
	try {
		return readFileSync(path, "utf8").trim();
	} catch {
		return "?";
	}
}
