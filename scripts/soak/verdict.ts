import { spreadOf } from "../bench/statistics.ts";

/** Threads of the engine `syscall`: two, so that one goes on when the other fails. */
export const WORKERS = 2;

/** One look at the daemon while it carries traffic. */
export interface Sample {
	/** Since the traffic began. */
	readonly seconds: number;
	/** Of all threads, each right after a collection: what is really in use. */
	readonly heapBytes: number;
	readonly residentBytes: number;
	readonly descriptors: number;
	/** Open now. */
	readonly connections: number;
	readonly udpFlows: number;
	/** Connections and flows that are over, and what they all have moved both ways until now. */
	readonly served: number;
	readonly movedBytes: number;
}

/** How much more the last third may have than the third before it. */
export interface Allowance {
	readonly ratio: number;
	readonly bytes: number;
}

/**
 * What the heap holds after a collection hardly differs from one look to the next; it grows for long by
 * code alone, which V8 makes faster bit by bit: half of this. A third of ten minutes has some 90,000
 * connections and flows, so a leak of 20 bytes each is more.
 */
export const HEAP_ALLOWANCE: Allowance = { ratio: 1.02, bytes: 256 * 1024 };

/** Of all memory, pages that V8 and the allocator keep for later come and go. */
export const RESIDENT_ALLOWANCE: Allowance = { ratio: 1.05, bytes: 2 * 1024 * 1024 };

/** Fewer in a third say nothing. */
const MIN_PER_THIRD = 5;

export interface Steadiness {
	readonly isSteady: boolean;
	/** Medians. */
	readonly middle: number;
	readonly last: number;
	/** The most that the last may be. */
	readonly limit: number;
}

/**
 * Whether a value has stopped growing.
 *
 * The first third is for warming up: code is compiled, pools and caches are filled. After that a leak
 * grows with every connection, so the median of the last third is above that of the middle one by what
 * leaks in a third of the time; a burst that some samples fall into moves neither.
 *
 * @param values taken at even distances. @throws where there are too few.
 */
export function judgeSteadiness(values: readonly number[], allowance: Allowance): Steadiness {
	const third = Math.floor(values.length / 3);
	if (third < MIN_PER_THIRD) {
		throw new RangeError(
			`Cannot judge ${values.length} samples: wanted ${3 * MIN_PER_THIRD} at least`,
		);
	}
	const { median: middle } = spreadOf(values.slice(-2 * third, -third));
	const { median: last } = spreadOf(values.slice(-third));
	const limit = middle * allowance.ratio + allowance.bytes;
	return { isSteady: last <= limit, middle, last, limit };
}

/** How many there are of each kind: "socket", "pipe", … */
export type Descriptors = ReadonlyMap<string, number>;

/** Each worker keeps 16 pipes for those who will move much. */
export const IDLE_PIPE_ENDS = 2 * 16 * WORKERS;

/** Whether there are no more descriptors of any kind than there were, but for the ends of idle pipes. */
export function areBack(before: Descriptors, after: Descriptors): boolean {
	return [...after].every(([kind, count]) => {
		const spare = kind === "pipe" ? IDLE_PIPE_ENDS : 0;
		return count <= (before.get(kind) ?? 0) + spare;
	});
}

/** A number that peers know exactly, or only the bounds of. */
export interface Range {
	readonly least: number;
	readonly most: number;
}

/** What the peers of a Service's connections have seen; of UDP's flows the same. */
export interface Account {
	readonly connections: Range;
	/** From what is known to have arrived to what was to be sent; "in" goes to the endpoint. */
	readonly bytesIn: Range;
	readonly bytesOut: Range;
}

/** What the daemon has counted of a Service. */
export type Counted = Readonly<Record<keyof Account, number>>;

const NONE: Range = { least: 0, most: 0 };

export const NO_ACCOUNT: Account = { connections: NONE, bytesIn: NONE, bytesOut: NONE };

export function exactly(number: number): Range {
	return { least: number, most: number };
}

export function sumOf(a: Account, b: Account): Account {
	const sum = (one: Range, other: Range): Range => ({
		least: one.least + other.least,
		most: one.most + other.most,
	});
	return {
		connections: sum(a.connections, b.connections),
		bytesIn: sum(a.bytesIn, b.bytesIn),
		bytesOut: sum(a.bytesOut, b.bytesOut),
	};
}

/** Where the daemon's numbers of a Service are not what its peers saw, in words. */
export function accountProblems(account: Account, counted: Counted): readonly string[] {
	const check = (what: string, { least, most }: Range, got: number): readonly string[] => {
		if (got >= least && got <= most) return [];
		const wanted = least === most ? String(least) : `${least} to ${most}`;
		return [`${got} ${what} were counted, wanted ${wanted}`];
	};
	return [
		...check("connections", account.connections, counted.connections),
		...check("bytes in", account.bytesIn, counted.bytesIn),
		...check("bytes out", account.bytesOut, counted.bytesOut),
	];
}
