/** What is measured of each contender: the rows of the tables, in their order. */
export interface FigureKind {
	readonly label: string;
	readonly unit: string;
	readonly better: "more" | "less";
}

/** By key: the name of the measurement (for `--only`), a dot, and what of it. */
export const FIGURE_KINDS = {
	"bulk.rate": more("bulk, 1 stream", "Gbit/s"),
	"bulk.processor": less("… processor time per GB", "s"),
	"bulk8.rate": more("bulk, 8 streams", "Gbit/s"),
	"bulk8.processor": less("… processor time per GB", "s"),
	"keepalive.rate": more("keep-alive requests, 32 connections", "k/s"),
	"keepalive.p50": less("… p50", "ms"),
	"keepalive.p99": less("… p99", "ms"),
	"keepalive256.rate": more("keep-alive requests, 256 connections", "k/s"),
	"keepalive256.p50": less("… p50", "ms"),
	"keepalive256.p99": less("… p99", "ms"),
	"new.rate": more("new connections", "k/s"),
	"new.p50": less("… p50", "ms"),
	"new.p99": less("… p99", "ms"),
	"new.processor": less("… processor time per 1,000", "ms"),
	"lone.p50": less("one lone request, p50", "µs"),
	"lone.added": less("… added to direct", "µs"),
	"udp.rate": more("UDP round trips, 64 bytes, 32 flows", "k/s"),
	"udp.p50": less("… p50", "ms"),
	"udp.p99": less("… p99", "ms"),
	"udp1400.rate": more("UDP round trips, 1,400 bytes, 32 flows", "k/s"),
	"udp1400.p50": less("… p50", "ms"),
	"udp1400.p99": less("… p99", "ms"),
	"idle.memory": less("an idle connection: memory", "KiB"),
	"idle.descriptors": less("… file descriptors", ""),
} as const satisfies Readonly<Record<string, FigureKind>>;

export type FigureKey = keyof typeof FIGURE_KINDS;

/** What one measurement of one contender gave. */
export type Figures = Readonly<Partial<Record<FigureKey, number>>>;

/** In the order of the tables. */
export const FIGURE_KEYS = Object.keys(FIGURE_KINDS) as readonly FigureKey[];

function more(label: string, unit: string): FigureKind {
	return { label, unit, better: "more" };
}

function less(label: string, unit: string): FigureKind {
	return { label, unit, better: "less" };
}
