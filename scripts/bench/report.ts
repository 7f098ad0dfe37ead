import type { Cell } from "./cell.ts";
import { FIGURE_KINDS, type FigureKey, type FigureKind } from "./figures.ts";
import type { Results } from "./results.ts";
import type { Spread } from "./statistics.ts";
import { judgeTargets, type TargetOutcome } from "./targets.ts";

/** What `--json` writes; docs/benchmarks.md explains it. `version` changes when a field changes its meaning. */
export interface BenchReport {
	readonly version: 1;
	/** ISO 8601. */
	readonly takenAt: string;
	readonly rounds: number;
	readonly secondsEach: number;
	readonly warmUpSeconds: number;
	readonly contenders: readonly string[];
	readonly footing: ReportFooting;
	readonly rows: readonly ReportRow[];
	readonly targets: readonly TargetOutcome[];
	/** In the order in which they were measured. */
	readonly cells: readonly Cell[];
}

interface ReportFooting {
	readonly processors: number;
	readonly kernel: string;
	/** Of the programs that took part, as they tell it. */
	readonly versions: Readonly<Record<string, string>>;
	readonly conntrackMax: number;
	readonly descriptorLimit: number;
	/** Share of all processors that other programs used before the run. */
	readonly otherLoad: number;
	/** Whether the node has the rules by which the nodes of clusters track connections. */
	readonly isNodeTracking: boolean;
	/** Empty: good. Else figures are here only because of `--anyway`. */
	readonly problems: readonly string[];
	/** The line under the table. */
	readonly summary: string;
}

interface ReportRow extends FigureKind {
	readonly key: FigureKey;
	/** By contender; without those that have no figure. */
	readonly figures: Readonly<Record<string, Spread>>;
	/** By contender whose ratio it is, then by whom it is compared with: more is better. */
	readonly ratios: Readonly<Record<string, Readonly<Record<string, Spread>>>>;
}

/** @param ours contenders whose ratios to all others are wanted. */
export function reportOf(
	results: Results,
	facts: Omit<BenchReport, "version" | "rows" | "targets">,
	ours: readonly string[],
): BenchReport {
	const { contenders } = facts;
	const rows = results.keys.map((key) => ({
		key,
		...FIGURE_KINDS[key],
		figures: known(contenders, (who) => results.spread(key, who)),
		ratios: known(ours, (our) =>
			known(
				contenders.filter((who) => who !== our),
				(who) => results.ratio(key, our, who),
			),
		),
	}));
	const { takenAt, rounds, secondsEach, warmUpSeconds, footing, cells } = facts;
	return {
		version: 1,
		takenAt,
		rounds,
		secondsEach,
		warmUpSeconds,
		contenders,
		footing,
		rows,
		targets: judgeTargets(results),
		cells,
	};
}

function known<T>(
	names: readonly string[],
	of: (name: string) => T | undefined,
): Readonly<Record<string, T>> {
	return Object.fromEntries(
		names.flatMap((name) => {
			const value = of(name);
			return value === undefined ? [] : [[name, value] as const];
		}),
	);
}
