import { cpus } from "node:os";
import type { ConntrackConfig } from "../config/config.ts";
import { applyConntrackSettings } from "../rules/apply-conntrack-settings.ts";
import { type SettingFiles, settingFiles } from "../rules/setting-files.ts";
import type { Log } from "../shared/log.ts";

/**
 * Makes the kernel's connection tracking as configured, and says what was changed and what could not
 * be. The daemon serves without it: at worst a busy node reaches the limit that it had before.
 */
export function adjustConntrack(
	config: ConntrackConfig,
	log: Log,
	host: { readonly cpuCount: number; readonly files: SettingFiles } = {
		cpuCount: hostCpuCount(),
		files: settingFiles(),
	},
): void {
	const { changed, failed } = applyConntrackSettings(config, host.cpuCount, host.files);
	if (changed.length > 0) log.info({ changed }, "connection tracking of the kernel is set");
	if (failed.length === 0) return;
	const settings = failed.map(({ setting, wanted, found, problem }) => ({
		setting,
		wanted,
		found,
		problem,
	}));
	const flags = [...new Set(failed.map(({ leaveAlone }) => leaveAlone))].join(" ");
	log.warn(
		{ settings, remedy: `set them on the host, or leave them alone: ${flags}` },
		"connection tracking of the kernel cannot be set as wanted",
	);
}

/** All CPUs of the host, as kube-proxy counts them, not those that this process may run on. */
export function hostCpuCount(): number {
	return Math.max(cpus().length, 1);
}
