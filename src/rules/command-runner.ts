import { CommandError } from "./command-error.ts";
import { runByExeca } from "./run-by-execa.ts";
import type { CommandOutput, RunOptions } from "./run-options.ts";
import { runSpawned, type SpawnProgram } from "./run-spawned.ts";

/** Runs programs. The only way out of this room; tests put other ones in its place. */
export interface CommandRunner {
	/**
	 * Runs one program, found through PATH, without a shell, to its end.
	 *
	 * @throws {CommandError} for everything but exit status 0.
	 */
	run(file: string, args: readonly string[], options: RunOptions): Promise<CommandOutput>;
}

/** Where iptables and conntrack are; a unit or a login without root's PATH does not have them. */
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Where programs find their parts, and which lock those of iptables take (iptables(8), ld.so(8)). */
const PASSED_ON: readonly string[] = [
	"XTABLES_LOCKFILE",
	"XTABLES_LIBDIR",
	"IPTABLES_LIB_DIR",
	"IP6TABLES_LIB_DIR",
	"LD_LIBRARY_PATH",
];

export interface CommandRunnerOptions {
	/** The process's environment. */
	readonly env: Readonly<Record<string, string | undefined>>;
	/** Names of the variables that programs are to see beside PATH and those of iptables; no others are shown. */
	readonly passedOn?: readonly string[];
	/** Gives what starts programs without holding up this process; undefined where there is nothing such. */
	readonly loadSpawn?: (() => Promise<SpawnProgram | undefined>) | undefined;
}

export function createCommandRunner(runnerOptions: CommandRunnerOptions): CommandRunner {
	const { env, passedOn = [], loadSpawn } = runnerOptions;
	const { PATH: path } = env;
	const childEnv = {
		...Object.fromEntries(
			[...PASSED_ON, ...passedOn].flatMap((name) => {
				const value = env[name];
				return value === undefined ? [] : [[name, value]];
			}),
		),
		PATH: path === undefined || path === "" ? SYSTEM_PATH : `${path}:${SYSTEM_PATH}`,
		// Error texts are read: they must not be translated.
		LC_ALL: "C",
	};
	return {
		async run(file, args, options) {
			const spawn = await loadSpawn?.();
			if (options.signal.aborted) throw new CommandError("COMMAND_CANCELED", { file });
			if (spawn === undefined) return await runByExeca(file, args, options, childEnv);
			return await runSpawned(spawn, file, args, options, childEnv);
		},
	};
}
