import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { runCommandSync } from "../../test/kit/lab-command.ts";

/** What the machine is like before a run. */
export interface MachineFacts {
	readonly processors: number;
	readonly kernel: string;
	/** NaN: the kernel does not tell. */
	readonly conntrackMax: number;
	/** Of files that one process may have open. */
	readonly descriptorLimit: number;
	/** Share of all processors that programs use now. */
	readonly otherLoad: number;
}

const LOOK_MS = 1_000;

/** Looks for a second, in which nothing of ours may run. */
export async function gatherMachineFacts(): Promise<MachineFacts> {
	return {
		processors: availableParallelism(),
		kernel: readFileSync("/proc/sys/kernel/osrelease", "utf8").trim(),
		conntrackMax: conntrackMax(),
		descriptorLimit: parseDescriptorLimit(readFileSync("/proc/self/limits", "utf8")),
		otherLoad: await otherLoadNow(LOOK_MS),
	};
}

/** The share of all processors that programs use while none of ours does anything. */
export async function otherLoadNow(forMs: number): Promise<number> {
	const before = processorTimes();
	await sleep(forMs);
	return busyShare(before, processorTimes());
}

const VERSION_COMMANDS: Readonly<Record<string, readonly string[]>> = {
	haproxy: ["-v"],
	nginx: ["-v"],
	socat: ["-V"],
	wrk: ["-v"],
	iperf3: ["--version"],
};

/** Of the programs that a run uses. */
export function programVersions(): Readonly<Record<string, string>> {
	return {
		node: process.version,
		...Object.fromEntries(
			Object.entries(VERSION_COMMANDS).map(([program, args]) => {
				const { stdout, stderr } = runCommandSync(program, args);
				return [program, parseVersion(`${stdout}\n${stderr}`)];
			}),
		),
	};
}

/** @param output what a program says of itself. */
export function parseVersion(output: string): string {
	return /\d+\.\d[\w.+~-]*/.exec(output)?.[0] ?? "unknown";
}

/** @param limits what /proc/self/limits says. @returns the hard limit, which Node gives itself. */
export function parseDescriptorLimit(limits: string): number {
	const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1];
	return hard === "unlimited" ? Number.POSITIVE_INFINITY : Number(hard);
}

/** Time of all processors until a moment, in ticks. */
export interface ProcessorTimes {
	readonly all: number;
	readonly idle: number;
	/** In which another guest of the same machine had a processor that ours wanted. */
	readonly stolen: number;
}

export function processorTimes(): ProcessorTimes {
	return parseProcessorTimes(readFileSync("/proc/stat", "utf8"));
}

/** @param stat what /proc/stat says: user, nice, system, idle, iowait, irq, softirq, steal, … */
export function parseProcessorTimes(stat: string): ProcessorTimes {
	const times = /^cpu\s+(.*)$/m.exec(stat)?.[1]?.split(" ").slice(0, 8).map(Number) ?? [];
	return {
		all: times.reduce((sum, each) => sum + each, 0),
		idle: (times[3] ?? 0) + (times[4] ?? 0),
		stolen: times[7] ?? 0,
	};
}

/** The share of all processors that programs used between two moments. */
export function busyShare(before: ProcessorTimes, after: ProcessorTimes): number {
	const all = after.all - before.all;
	return all === 0 ? 0 : 1 - (after.idle - before.idle) / all;
}

/** The share of all processors that other guests took. */
export function stolenShare(before: ProcessorTimes, after: ProcessorTimes): number {
	const all = after.all - before.all;
	return all === 0 ? 0 : (after.stolen - before.stolen) / all;
}

function conntrackMax(): number {
	try {
		return Number(readFileSync("/proc/sys/net/netfilter/nf_conntrack_max", "utf8"));
	} catch {
		return Number.NaN;
	}
}
