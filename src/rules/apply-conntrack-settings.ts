import { errorCode } from "../shared/errors.ts";
import {
	type ConntrackWish,
	isAsWanted,
	type KernelSetting,
	planConntrackSettings,
} from "./conntrack-settings.ts";
import type { SettingFiles } from "./setting-files.ts";

/** How one wanted setting stands on this host, before anything is written. */
export type SettingState = { readonly setting: KernelSetting } & (
	| { readonly state: "right"; readonly found: number }
	| { readonly state: "to-write"; readonly found: number }
	/** It differs, and this process may not change it. */
	| { readonly state: "locked"; readonly found: number; readonly problem: string }
	/** Not there, or not to be read. */
	| { readonly state: "unknown"; readonly problem: string }
);

interface SettingChange {
	readonly setting: string;
	readonly from: number;
	readonly to: number;
}

interface SettingFailure {
	readonly setting: string;
	readonly wanted: number;
	/** Undefined: it cannot be read. */
	readonly found: number | undefined;
	readonly problem: string;
	readonly leaveAlone: string;
}

export interface ConntrackOutcome {
	readonly changed: readonly SettingChange[];
	readonly failed: readonly SettingFailure[];
}

/** Looks at every setting that is wanted; changes nothing. */
export function lookAtConntrackSettings(
	wish: ConntrackWish,
	cpus: number,
	files: SettingFiles,
): readonly SettingState[] {
	const { size, others } = planConntrackSettings(wish, cpus);
	const states = others.map((setting) => stateOf(setting, files));
	if (size === undefined) return states;
	const max = stateOf(size.max, files);
	return isOurs(size.max, files)
		? [max, stateOf(size.buckets, files), ...states]
		: [max, ...states];
}

/**
 * Makes the kernel's connection tracking as wanted. What is right already is not written; what cannot
 * be set stays as it is. May be called again. Never throws.
 */
export function applyConntrackSettings(
	wish: ConntrackWish,
	cpus: number,
	files: SettingFiles,
): ConntrackOutcome {
	const { size, others } = planConntrackSettings(wish, cpus);
	const outcome = { changed: [] as SettingChange[], failed: [] as SettingFailure[] };
	const settle = (setting: KernelSetting): boolean => settleSetting(setting, files, outcome);
	if (size !== undefined && settle(size.max) && isOurs(size.max, files)) settle(size.buckets);
	for (const setting of others) settle(setting);
	return outcome;
}

/** @returns false when it is not as wanted and could not be made so. */
function settleSetting(
	setting: KernelSetting,
	files: SettingFiles,
	outcome: { readonly changed: SettingChange[]; readonly failed: SettingFailure[] },
): boolean {
	const look = stateOf(setting, files);
	if (look.state === "right") return true;
	const { name, wanted, leaveAlone } = setting;
	const found = look.state === "unknown" ? undefined : look.found;
	const problem = look.state === "to-write" ? write(setting, files) : look.problem;
	if (problem === undefined && found !== undefined) {
		outcome.changed.push({ setting: name, from: found, to: wanted });
		return true;
	}
	outcome.failed.push({ setting: name, wanted, found, problem: problem ?? "unknown", leaveAlone });
	return false;
}

/**
 * Whether the size of the table is for this process to set. It is the whole host's: in a network
 * namespace the kernel shows nf_conntrack_max read-only, while the file of the buckets looks writable.
 */
function isOurs(max: KernelSetting, files: SettingFiles): boolean {
	return files.writeProblem(max.path) === undefined;
}

function stateOf(setting: KernelSetting, files: SettingFiles): SettingState {
	const reading = files.read(setting.path);
	if ("problem" in reading) return { setting, state: "unknown", problem: reading.problem };
	const found = reading.value;
	if (isAsWanted(setting, found)) return { setting, state: "right", found };
	const problem = files.writeProblem(setting.path);
	return problem === undefined
		? { setting, state: "to-write", found }
		: { setting, state: "locked", found, problem };
}

function write({ path, wanted }: KernelSetting, files: SettingFiles): string | undefined {
	try {
		files.write(path, wanted);
		return undefined;
	} catch (error) {
		return errorCode(error) ?? String(error);
	}
}
