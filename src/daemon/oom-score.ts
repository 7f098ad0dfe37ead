import { writeFileSync } from "node:fs";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";

/**
 * Tells the kernel how readily this process may be killed for want of memory (-1000 never, 1000
 * first). Under systemd the unit has set it already; without the right to lower it, it is said.
 */
export function adjustOomScore(score: number | undefined, log: Log): void {
	if (score === undefined) return;
	try {
		writeFileSync("/proc/self/oom_score_adj", String(score));
	} catch (error) {
		log.info({ score, error: describeError(error) }, "cannot set the OOM score, it stays as it is");
	}
}
