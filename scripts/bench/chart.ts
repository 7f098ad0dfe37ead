import type { FigureKey } from "./figures.ts";
import type { BenchReport } from "./report.ts";
import { threeFigures } from "./tables.ts";

/** What is drawn: one panel of bars each. */
const PANELS: readonly FigureKey[] = [
	"bulk.rate",
	"bulk8.rate",
	"keepalive.rate",
	"keepalive256.rate",
	"new.rate",
	"new.p99",
	"udp.rate",
	"udp1400.rate",
	"lone.added",
	"idle.memory",
];

const COLUMNS = 2;
const PANEL_WIDTH = 400;
const NAME_WIDTH = 96;
const VALUE_WIDTH = 60;
const BAR_HEIGHT = 14;
const BAR_STEP = 19;
const HEAD_HEIGHT = 22;
const GAP = 24;
const MARGIN = 16;

/** Its latency of a fork for each connection would make all other bars a line. */
const OFF_SCALE: ReadonlySet<string> = new Set(["socat"]);

/** Ours stand out, and what goes through no proxy stands back. */
const COLOURS: Readonly<Record<string, string>> = {
	direct: "#b9bec6",
	haproxy: "#d9a441",
	nginx: "#5aa469",
	socat: "#c9805a",
	stream: "#86aee0",
	syscall: "#1f5fbf",
	"syscall-cores": "#123a75",
};
const OTHER_COLOUR = "#9a7fc0";

/** Bars of the medians with the spread of the rounds as a thin line; each panel to a scale of its own. */
export function chartOf(report: BenchReport): string {
	const panels = PANELS.flatMap((key) => report.rows.find((row) => row.key === key) ?? []);
	const width = COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * GAP + 2 * MARGIN;
	const parts: string[] = [];
	let y = MARGIN;
	for (let first = 0; first < panels.length; first += COLUMNS) {
		const line = panels.slice(first, first + COLUMNS);
		for (const [column, row] of line.entries()) {
			parts.push(...panelOf(row, report.contenders, MARGIN + column * (PANEL_WIDTH + GAP), y));
		}
		const most = Math.max(...line.map(({ figures }) => Object.keys(figures).length));
		y += HEAD_HEIGHT + most * BAR_STEP + GAP;
	}
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" font-family="system-ui, sans-serif" font-size="12" fill="#24292f">`,
		`<rect width="${width}" height="${y}" fill="#ffffff"/>`,
		...parts,
		"</svg>\n",
	].join("\n");
}

function panelOf(
	{ label, unit, better, figures, key }: BenchReport["rows"][number],
	contenders: readonly string[],
	x: number,
	y: number,
): readonly string[] {
	const shown = contenders.flatMap((who) => {
		const spread = figures[who];
		if (spread === undefined || (better === "less" && OFF_SCALE.has(who))) return [];
		return [{ who, spread }];
	});
	const full = Math.max(Number.MIN_VALUE, ...shown.map(({ spread }) => spread.max));
	const scale = (PANEL_WIDTH - NAME_WIDTH - VALUE_WIDTH) / full;
	const title = `${TITLES[key] ?? label}, ${unit}`;
	const barsX = x + NAME_WIDTH;
	return [
		text(x, y + 12, title, 'font-weight="600"'),
		text(x + PANEL_WIDTH, y + 12, `${better} is better`, 'text-anchor="end" fill="#6e7781"'),
		...shown.flatMap(({ who, spread: { median, min, max } }, index) => {
			const top = y + HEAD_HEIGHT + index * BAR_STEP;
			const middle = top + BAR_HEIGHT / 2;
			const at = (value: number) => barsX + Math.max(0, value) * scale;
			return [
				text(barsX - 6, top + 11, who, 'text-anchor="end"'),
				`<rect x="${barsX}" y="${top}" width="${rounded(Math.max(1, at(median) - barsX))}" height="${BAR_HEIGHT}" fill="${COLOURS[who] ?? OTHER_COLOUR}"/>`,
				`<path d="M${rounded(at(min))} ${middle}H${rounded(at(max))}" stroke="#24292f" stroke-opacity="0.55"/>`,
				text(at(max) + 6, top + 11, threeFigures(median), ""),
			];
		}),
	];
}

const TITLES: Readonly<Partial<Record<FigureKey, string>>> = {
	"new.p99": "new connections, p99",
	"lone.added": "added to one lone request",
};

function text(x: number, y: number, content: string, attributes: string): string {
	const safe = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
	return `<text x="${rounded(x)}" y="${y}" ${attributes}>${safe}</text>`;
}

function rounded(value: number): string {
	return value.toFixed(1);
}
