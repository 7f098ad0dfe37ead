import type { Cell, CellFooting } from "../../../../scripts/bench/cell.ts";
import type { Figures } from "../../../../scripts/bench/figures.ts";

/** A machine on which nothing else happens. */
export const QUIET: CellFooting = {
	otherLoad: 0,
	stolen: 0,
	clientTimeWait: 0,
	nodeTimeWait: 0,
	conntrack: 0,
};

/** `cell("new haproxy 2", { "new.rate": 9 })`: measurement, contender, round. */
export function cell(of: string, figures: Figures, more: Partial<Cell> = {}): Cell {
	const [measurement = "", contender = "", round = "1"] = of.split(" ");
	return { round: Number(round), measurement, contender, figures, footing: QUIET, ...more };
}

/** One that gave nothing. */
export function failedCell(of: string, failure = "it broke"): Cell {
	return cell(of, {}, { failure });
}
