import { Counter, Gauge, type Registry } from "prom-client";

/** One sample: its labels, and its value. */
type Sample<Label extends string> = readonly [
	labels: Readonly<Partial<Record<Label, string>>>,
	value: number,
];

export interface ScrapedMetric<Label extends string> {
	readonly name: string;
	readonly help: string;
	readonly labelNames?: readonly Label[];
	/** Called at each scrape; what it leaves out is not there any more. */
	readonly read: () => Iterable<Sample<Label>>;
}

/** A gauge that is read only when somebody scrapes. */
export function addGauge<Label extends string = never>(
	registry: Registry,
	{ name, help, labelNames = [], read }: ScrapedMetric<Label>,
): void {
	new Gauge<Label>({
		name,
		help,
		labelNames,
		registers: [registry],
		collect() {
			this.reset();
			for (const [labels, value] of read()) this.set(labels, value);
		},
	});
}

/** A counter that somebody else counts, read only when somebody scrapes. */
export function addCounter<Label extends string = never>(
	registry: Registry,
	{ name, help, labelNames = [], read }: ScrapedMetric<Label>,
): void {
	new Counter<Label>({
		name,
		help,
		labelNames,
		registers: [registry],
		collect() {
			this.reset();
			for (const [labels, value] of read()) this.inc(labels, value);
		},
	});
}
