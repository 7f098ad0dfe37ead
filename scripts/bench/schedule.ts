import { type Contender, isMeasured } from "./contenders.ts";
import type { Measurement } from "./measurements.ts";

/** One measurement of one contender in one round. */
export interface Turn {
	/** From 1. */
	readonly round: number;
	readonly measurement: Measurement;
	readonly contender: Contender;
}

/**
 * The order of a run: in each round, for each measurement, each contender in turn, so that what is compared was
 * measured within a minute. Who comes first changes from round to round.
 */
export function scheduleOf(
	rounds: number,
	measurements: readonly Measurement[],
	contenders: readonly Contender[],
): readonly Turn[] {
	return Array.from({ length: rounds }, (_, index) => index + 1).flatMap((round) =>
		measurements.flatMap((measurement) => {
			const able = contenders.filter((contender) => isMeasured(contender, measurement));
			return rotated(able, round - 1).map((contender) => ({ round, measurement, contender }));
		}),
	);
}

function rotated<T>(list: readonly T[], by: number): readonly T[] {
	const first = list.length === 0 ? 0 : by % list.length;
	return [...list.slice(first), ...list.slice(0, first)];
}
