import { CommandError } from "../../src/rules/command-error.ts";
import type { CommandRunner } from "../../src/rules/command-runner.ts";

export interface FaultyRunnerOptions {
	/** Uniform in [0, 1); seeded by the test, so that a failure can be repeated. */
	readonly random: () => number;
	/** Share of the commands that fail; one in ten where it is not given. */
	readonly share?: number;
	/** Only commands for which this is true may fail. */
	readonly mayFail?: (file: string, args: readonly string[]) => boolean;
}

/**
 * A runner that fails now and then: half of the failures come before the command has run, half of
 * them after it has done its work, which is what a program killed at its limit looks like.
 */
export function faultyRunner(
	inner: CommandRunner,
	{ random, share = 0.1, mayFail = () => true }: FaultyRunnerOptions,
): CommandRunner & { readonly faults: () => number } {
	let faults = 0;
	return {
		faults: () => faults,
		async run(file, args, options) {
			if (!mayFail(file, args) || random() >= share) return await inner.run(file, args, options);
			faults += 1;
			if (random() < 0.5) throw new CommandError("COMMAND_LOCK_HELD", { file });
			await inner.run(file, args, options);
			throw new CommandError("COMMAND_TIMED_OUT", { file });
		},
	};
}

/** Deterministic numbers in [0, 1) (mulberry32), for tests that print their seed. */
export function seededRandom(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let mixed = Math.imul(state ^ (state >>> 15), state | 1);
		mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
}
