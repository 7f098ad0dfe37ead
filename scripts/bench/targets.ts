import { FIGURE_KINDS, type FigureKey } from "./figures.ts";
import type { Results } from "./results.ts";

/** What the fast engine has to reach, and what was measured. */
export interface TargetOutcome {
	readonly label: string;
	/** "≥ 1.60" */
	readonly wanted: string;
	readonly got: number;
	readonly isReached: boolean;
}

/** The engine that they are for. */
const OURS = "syscall";

/** Its figure by the other's; of a rate at least this, of a latency at most. */
const RELATIVE: readonly (readonly [FigureKey, Readonly<Record<string, number>>])[] = [
	["bulk.rate", { haproxy: 1.6, nginx: 1.8, direct: 0.65, stream: 2 }],
	["keepalive.rate", { haproxy: 1.1, nginx: 1, direct: 0.55, stream: 1.3 }],
	["keepalive256.rate", { haproxy: 1.1, nginx: 1, direct: 0.55, stream: 1.3 }],
	["new.rate", { haproxy: 1.1, nginx: 1.1, direct: 0.6, stream: 2 }],
	["new.p99", { haproxy: 1, nginx: 1, stream: 0.6 }],
	["udp.rate", { nginx: 1.5, direct: 0.5, stream: 2.5 }],
	["udp1400.rate", { nginx: 1.5, direct: 0.5, stream: 2.5 }],
];

/** At most this of the unit. */
const ABSOLUTE: readonly (readonly [FigureKey, number])[] = [
	["idle.memory", 4],
	["idle.descriptors", 2],
];

const LABELS: Readonly<Partial<Record<FigureKey, string>>> = {
	"new.p99": "new connections, p99",
	"idle.descriptors": "an idle connection: file descriptors",
};

/** Without those that this run has not measured. */
export function judgeTargets(results: Results): readonly TargetOutcome[] {
	return [
		...RELATIVE.flatMap(([key, targets]) =>
			Object.entries(targets).flatMap(([other, target]) => relative(results, key, other, target)),
		),
		...ABSOLUTE.flatMap(([key, most]) => {
			const got = results.spread(key, OURS)?.median;
			return got === undefined ? [] : [outcome(`${labelOf(key)}: ${OURS}`, "≤", most, got)];
		}),
	];
}

function relative(
	results: Results,
	key: FigureKey,
	other: string,
	target: number,
): readonly TargetOutcome[] {
	const ratio = results.ratio(key, OURS, other)?.median;
	if (ratio === undefined) return [];
	const label = `${labelOf(key)}: ${OURS} to ${other}`;
	// Ratios say how many times better ours is; of a latency the target is its share of the other's.
	return FIGURE_KINDS[key].better === "more"
		? [outcome(label, "≥", target, ratio)]
		: [outcome(label, "≤", target, 1 / ratio)];
}

function outcome(label: string, sense: "≥" | "≤", target: number, measured: number): TargetOutcome {
	// As it is printed: what is told to be 1.60 has reached 1.60.
	const got = Math.round(measured * 100) / 100;
	const isReached = sense === "≥" ? got >= target : got <= target;
	return { label, wanted: `${sense} ${target.toFixed(2)}`, got, isReached };
}

function labelOf(key: FigureKey): string {
	return LABELS[key] ?? FIGURE_KINDS[key].label;
}
