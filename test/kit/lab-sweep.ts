import { readdirSync } from "node:fs";
import { runCommandSync } from "./lab-command.ts";

/** Where iproute2 keeps the names of network namespaces. */
export const NETNS_FOLDER = "/run/netns";

/** `kup-PID-N-role`: the names of labs that go with the process that made them. */
const LAB_NAME = /^kup-(\d+)-\d+-/;

/**
 * Removes the labs of processes that are gone, and kills what still runs in them. Touches nothing
 * whose name is not a lab's.
 *
 * @returns the names of the namespaces that it removed.
 */
export function sweepLabs(): readonly string[] {
	const left = namespaceNames().filter((name) => {
		const pid = LAB_NAME.exec(name)?.[1];
		return pid !== undefined && !isAlive(Number(pid));
	});
	removeNamespaces(left);
	return left;
}

/** Names of the network namespaces that exist; empty where there never was one. */
export function namespaceNames(): readonly string[] {
	try {
		return readdirSync(NETNS_FOLDER);
	} catch {
		return [];
	}
}

/**
 * Kills everything in these namespaces and removes them; those that are gone already are skipped.
 *
 * In one synchronous go, so that it serves in the last moments of a process, too. Never throws.
 */
export function removeNamespaces(names: readonly string[]): void {
	const existing = namespaceNames();
	const present = names.filter((name) => existing.includes(name));
	if (present.length === 0) return;
	for (const name of present) killInside(name);
	runCommandSync(
		"ip",
		["-force", "-batch", "-"],
		present.map((name) => `netns del ${name}\n`).join(""),
	);
}

/** Pids of what runs in a namespace. */
export function pidsInside(name: string): readonly number[] {
	const { stdout } = runCommandSync("ip", ["netns", "pids", name]);
	return stdout.split("\n").filter(Boolean).map(Number);
}

function killInside(name: string): void {
	for (const pid of pidsInside(name)) {
		if (pid === process.pid) continue;
		try {
			process.kill(pid, "SIGKILL");
		} catch {
			// Gone meanwhile.
		}
	}
}

function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		// EPERM: alive, but not ours.
		return error instanceof Error && "code" in error && error.code === "EPERM";
	}
}
