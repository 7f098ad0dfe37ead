import { arch, platform } from "node:os";
import type { SpawnProgram } from "../rules/run-spawned.ts";
import { platformProblem } from "../system/platform-problem.ts";

/**
 * What starts programs without a fork of this process, which holds up every connection; undefined where the library for
 * system calls does not work: Node starts them then.
 *
 * Not at the top: where that library is missing, the module cannot even be loaded.
 */
export async function loadSpawnProgram(): Promise<SpawnProgram | undefined> {
	if (platformProblem(platform(), arch()) !== undefined) return undefined;
	try {
		return (await import("../system/spawn.ts")).spawnProgram;
	} catch {
		// `auto` tells of it once, where it chooses the engine.
		return undefined;
	}
}
