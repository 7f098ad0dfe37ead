import { FIGURE_KINDS, type FigureKey } from "./figures.ts";
import type { Results } from "./results.ts";
import type { Spread } from "./statistics.ts";
import type { TargetOutcome } from "./targets.ts";

const NOTHING = "–";

/** Medians, with the least and the most of all rounds. */
export function figuresTable(results: Results, contenders: readonly string[]): string {
	const lines = results.keys.map((key) => [
		labelOf(key),
		...contenders.map((who) => figureCell(results, key, who)),
	]);
	return align(withoutEmptyColumns([["", ...contenders], ...lines]));
}

/** How many times better one contender is than each other. */
export function ratiosTable(results: Results, ours: string, contenders: readonly string[]): string {
	const others = contenders.filter((who) => who !== ours);
	const lines = results.keys
		.filter((key) => results.spread(key, ours) !== undefined)
		.map((key) => [
			labelOf(key),
			...others.map((who) => spreadCell(results.ratio(key, ours, who), twoDigits)),
		]);
	return align(withoutEmptyColumns([[`${ours} to`, ...others], ...lines]));
}

/** What has to be reached, and whether it is. */
export function targetsTable(outcomes: readonly TargetOutcome[]): string {
	return align([
		["target", "wanted", "got", ""],
		...outcomes.map(({ label, wanted, got, isReached }) => [
			label,
			wanted,
			twoDigits(got),
			isReached ? "reached" : "NOT reached",
		]),
	]);
}

function labelOf(key: FigureKey): string {
	const { label, unit } = FIGURE_KINDS[key];
	return unit === "" ? label : `${label}, ${unit}`;
}

function figureCell(results: Results, key: FigureKey, who: string): string {
	const spread = results.spread(key, who);
	const failures = results.failures(key, who);
	if (spread === undefined) return failures > 0 ? "failed" : NOTHING;
	return `${spreadCell(spread, threeFigures)}${failures > 0 ? ` ${failures} failed` : ""}`;
}

function spreadCell(spread: Spread | undefined, say: (value: number) => string): string {
	if (spread === undefined) return NOTHING;
	const [median, min, max] = [spread.median, spread.min, spread.max].map(say);
	return min === max ? `${median}` : `${median} (${min}–${max})`;
}

/** As many digits as say something of what was measured. */
export function threeFigures(value: number): string {
	return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function twoDigits(value: number): string {
	return value.toFixed(2);
}

/** Of contenders that took no part in any of the lines. */
function withoutEmptyColumns(
	lines: readonly (readonly string[])[],
): readonly (readonly string[])[] {
	const isFilled = (_: string, column: number) =>
		column === 0 || lines.slice(1).some((line) => line[column] !== NOTHING);
	return lines.map((line) => line.filter(isFilled));
}

function align(lines: readonly (readonly string[])[]): string {
	const widths = (lines[0] ?? []).map((_, column) =>
		Math.max(...lines.map((line) => (line[column] ?? "").length)),
	);
	const padded = (cell: string, column: number) =>
		column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0);
	return lines.map((line) => line.map(padded).join("  ").trimEnd()).join("\n");
}
