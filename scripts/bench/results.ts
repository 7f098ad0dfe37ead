import type { Cell } from "./cell.ts";
import { FIGURE_KEYS, FIGURE_KINDS, type FigureKey } from "./figures.ts";
import { type Spread, spreadOf } from "./statistics.ts";

/** The contender that others' latency is compared with. */
const DIRECT = "direct";

/** The figures of all rounds, by what was measured and of whom. */
export class Results {
	readonly #cells: readonly Cell[];

	constructor(cells: readonly Cell[]) {
		this.#cells = cells;
	}

	/** Those of which anybody has a figure or should have one, in the order of the tables. */
	get keys(): readonly FigureKey[] {
		return FIGURE_KEYS.filter(
			(key) =>
				this.#cells.some((cell) => figureOf(cell, key, this.#cells) !== undefined) ||
				this.#cells.some((cell) => isMainKey(key) && cell.measurement === measurementOf(key)),
		);
	}

	/** By round. */
	values(key: FigureKey, contender: string): ReadonlyMap<number, number> {
		const values = new Map<number, number>();
		for (const cell of this.#cells) {
			const value = cell.contender === contender ? figureOf(cell, key, this.#cells) : undefined;
			if (value !== undefined) values.set(cell.round, value);
		}
		return values;
	}

	spread(key: FigureKey, contender: string): Spread | undefined {
		const values = [...this.values(key, contender).values()];
		return values.length === 0 ? undefined : spreadOf(values);
	}

	/** In how many rounds the measurement failed. */
	failures(key: FigureKey, contender: string): number {
		return this.#cells.filter(
			(cell) =>
				cell.contender === contender &&
				cell.measurement === measurementOf(key) &&
				cell.failure !== undefined,
		).length;
	}

	/**
	 * How many times better one is than another: of each round, since a machine may be faster in one round than
	 * in the next. More is better for `ours`, also where less of the unit is.
	 */
	ratio(key: FigureKey, ours: string, other: string): Spread | undefined {
		const theirs = this.values(key, other);
		const ratios = [...this.values(key, ours)].flatMap(([round, our]) => {
			const their = theirs.get(round);
			if (their === undefined || their <= 0 || our <= 0) return [];
			return [FIGURE_KINDS[key].better === "more" ? our / their : their / our];
		});
		return ratios.length === 0 ? undefined : spreadOf(ratios);
	}
}

function measurementOf(key: FigureKey): string {
	return key.slice(0, key.indexOf("."));
}

/** The first one of each measurement, which has a row even where it failed for everybody. */
function isMainKey(key: FigureKey): boolean {
	return FIGURE_KEYS.find((each) => measurementOf(each) === measurementOf(key)) === key;
}

function figureOf(cell: Cell, key: FigureKey, cells: readonly Cell[]): number | undefined {
	if (key !== "lone.added") return cell.figures[key];
	const direct = cells.find(
		({ round, measurement, contender }) =>
			round === cell.round && measurement === cell.measurement && contender === DIRECT,
	);
	const [own, least] = [cell.figures["lone.p50"], direct?.figures["lone.p50"]];
	return own === undefined || least === undefined || cell === direct ? undefined : own - least;
}
