import type { Config } from "../config/config.ts";
import { parseFlag } from "../config/flags.ts";
import { loadConfig } from "../config/load.ts";
import { describeConfigProblem } from "../config/problem.ts";
import type { ConfigResult, FlagTexts } from "../config/resolve.ts";
import { renderConfigFile } from "../config/write.ts";
import type { Daemon } from "../daemon/contract.ts";
import { describeError } from "../shared/errors.ts";
import { cleanupCommand } from "./cleanup.ts";
import { EXIT_FAILED, EXIT_FINE, EXIT_USAGE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { complain, complainAll } from "./report.ts";

/**
 * `run`: the daemon, or one of the two things to do in its place.
 *
 * @returns the exit status, once everything is over.
 */
export async function runCommand(host: Host, flags: FlagTexts): Promise<number> {
	// Before the configuration is judged: whoever cleans up need not have one that is right.
	if (isSwitchedOn(flags)) return await cleanupCommand(host);
	const result = load(host, flags);
	if ("problems" in result) {
		complainAll(host, result.problems);
		return EXIT_USAGE;
	}
	const writeTo = flags["write-config-to"]?.at(-1) ?? "";
	if (writeTo !== "") return writeConfig(host, writeTo, result.config);
	return await runDaemon(host, flags, result.config);
}

function isSwitchedOn(flags: FlagTexts): boolean {
	const parsed = parseFlag("cleanup", flags.cleanup?.at(-1) ?? "false");
	return "value" in parsed && parsed.value;
}

function load(host: Host, flags: FlagTexts): ConfigResult {
	const result = loadConfig({ flags, env: host.env, hostname: host.hostname });
	if ("warnings" in result) {
		for (const warning of result.warnings) complain(host, `warning: ${warning}`);
	}
	return result;
}

function writeConfig(host: Host, path: string, config: Config): number {
	try {
		host.writeFile(path, renderConfigFile(config));
	} catch (error) {
		complain(host, `--write-config-to: cannot write ${path}: ${describeError(error)}`);
		return EXIT_FAILED;
	}
	host.out(`Wrote ${path}\n`);
	return EXIT_FINE;
}

async function runDaemon(host: Host, flags: FlagTexts, config: Config): Promise<number> {
	const daemon = await host.doors.startDaemon(config, {
		env: host.env,
		version: host.version,
		reloadConfig: () => {
			const result = load(host, flags);
			return "problems" in result
				? { problems: result.problems.map(describeConfigProblem) }
				: { config: result.config };
		},
	});
	listen(host, daemon);
	const status = await endOf(daemon);
	// What is open now is at most a log line that nobody reads: it has been waited for.
	host.exit(status);
	return status;
}

async function endOf(daemon: Daemon): Promise<number> {
	try {
		const { rulesAreGone } = await daemon.ended;
		return rulesAreGone ? EXIT_FINE : EXIT_FAILED;
	} catch (error) {
		daemon.fatal(error);
		return EXIT_FAILED;
	}
}

function listen(host: Host, daemon: Daemon): void {
	const { signals } = host;
	signals.on("SIGTERM", () => daemon.stop("SIGTERM"));
	signals.on("SIGINT", () => daemon.stop("SIGINT"));
	signals.on("SIGHUP", () => daemon.reload());
	signals.on("SIGUSR1", () => daemon.logMoreConnections());
	signals.on("SIGUSR2", () => daemon.logFewerConnections());
	// A bug: nobody knows what is still true, so a fresh process takes over. The rules stay in force.
	const die = (error: unknown): void => {
		daemon.fatal(error);
		host.exit(EXIT_FAILED);
	};
	signals.on("uncaughtException", die);
	signals.on("unhandledRejection", die);
}
