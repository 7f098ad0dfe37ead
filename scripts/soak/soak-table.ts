import { paint } from "../demo/stage.ts";
import type { Sample } from "./verdict.ts";

/** Rows of the table, however long the soak is. */
const ROWS = 12;

const COLUMNS: readonly { readonly name: string; readonly of: (sample: Sample) => string }[] = [
	{ name: "minute", of: ({ seconds }) => (seconds / 60).toFixed(1) },
	{ name: "heap MiB", of: ({ heapBytes }) => mebibytes(heapBytes) },
	{ name: "resident MiB", of: ({ residentBytes }) => mebibytes(residentBytes) },
	{ name: "descriptors", of: ({ descriptors }) => String(descriptors) },
	{ name: "connections", of: ({ connections }) => String(connections) },
	{ name: "UDP flows", of: ({ udpFlows }) => String(udpFlows) },
	{ name: "served", of: ({ served }) => grouped(served) },
	{ name: "moved MiB", of: ({ movedBytes }) => grouped(movedBytes / MIB) },
];

const GAP = "  ";
const MIN_WIDTH = 9;
const MIB = 1024 * 1024;

/** How the daemon fares, a row from time to time; what it has served and moved is since its start. */
export class SoakTable {
	readonly #every: number;
	#count = 0;

	/** @param samples so many will come. */
	constructor(samples: number) {
		this.#every = Math.max(1, Math.ceil(samples / ROWS));
		console.log(paint("dim", line(COLUMNS.map(({ name }) => name))));
	}

	add(sample: Sample): void {
		this.#count += 1;
		if (this.#count % this.#every === 0) console.log(line(COLUMNS.map(({ of }) => of(sample))));
	}

	/** Between two rows. */
	say(what: string): void {
		console.log(paint("dim", `${GAP}${"·".padStart(MIN_WIDTH)}${GAP}${what}`));
	}
}

export function mebibytes(bytes: number): string {
	return (bytes / MIB).toFixed(1);
}

/** With commas between the thousands. */
export function grouped(count: number): string {
	return Math.round(count).toLocaleString("en");
}

function line(cells: readonly string[]): string {
	const widths = COLUMNS.map(({ name }) => Math.max(MIN_WIDTH, name.length));
	return cells.map((cell, index) => GAP + cell.padStart(widths[index] ?? 0)).join("");
}
