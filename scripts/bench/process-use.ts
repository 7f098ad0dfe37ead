import { readdirSync, readFileSync } from "node:fs";

/** What /proc counts processor time in: USER_HZ, 100 on every Linux. */
const TICKS_A_SECOND = 100;

/** User and system time of processes with all their threads until now, in seconds. */
export function processorSeconds(pids: readonly number[]): number {
	return sum(pids, (pid) => parseProcessorSeconds(readFileSync(`/proc/${pid}/stat`, "utf8")));
}

/** Memory of processes that is in use now. */
export function residentBytes(pids: readonly number[]): number {
	return sum(pids, (pid) => parseResidentBytes(readFileSync(`/proc/${pid}/status`, "utf8")));
}

/** Files that processes have open now. */
export function openDescriptors(pids: readonly number[]): number {
	return sum(pids, (pid) => readdirSync(`/proc/${pid}/fd`).length);
}

/** @param stat what /proc/PID/stat says. */
export function parseProcessorSeconds(stat: string): number {
	// The name of the program comes second, in brackets, and may hold blanks and brackets itself.
	const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
	return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
}

/** @param status what /proc/PID/status says. */
export function parseResidentBytes(status: string): number {
	return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
	return pids.reduce((total, pid) => total + of(pid), 0);
}
