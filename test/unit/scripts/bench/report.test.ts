import { describe, expect, test as it } from "vitest";
import { chartOf } from "../../../../scripts/bench/chart.ts";
import { reportOf } from "../../../../scripts/bench/report.ts";
import { Results } from "../../../../scripts/bench/results.ts";
import { cell } from "./cells.ts";

function aReport() {
	const cells = [
		cell("new a<b 1", { "new.rate": 10 }),
		cell("new syscall 1", { "new.rate": 12 }),
		cell("new syscall 2", { "new.rate": 14 }),
		cell("bulk syscall 1", { "bulk.rate": 5, "bulk.processor": 0.2 }),
	];
	return reportOf(
		new Results(cells),
		{
			takenAt: "2026-01-02T03:04:05.000Z",
			rounds: 2,
			secondsEach: 4,
			warmUpSeconds: 2,
			contenders: ["a<b", "syscall"],
			footing: {
				processors: 2,
				kernel: "6.1.0",
				versions: { node: "v26.0.0" },
				conntrackMax: 262_144,
				descriptorLimit: 20_000,
				otherLoad: 0,
				isNodeTracking: true,
				problems: [],
				summary: "fine",
			},
			cells,
		},
		["syscall"],
	);
}

describe("reportOf", () => {
	it("has a row for each figure, with the spread and ratios of all who have one", () => {
		const { version, rows } = aReport();
		expect(version).toBe(1);
		expect(rows.map(({ key }) => key)).toEqual(["bulk.rate", "bulk.processor", "new.rate"]);
		expect(rows[2]).toEqual({
			key: "new.rate",
			label: "new connections",
			unit: "k/s",
			better: "more",
			figures: {
				"a<b": { median: 10, min: 10, max: 10 },
				syscall: { median: 13, min: 12, max: 14 },
			},
			ratios: { syscall: { "a<b": { median: 1.2, min: 1.2, max: 1.2 } } },
		});
	});
});

describe("chartOf", () => {
	it("draws a bar for each figure, as long as its median", () => {
		const svg = chartOf(aReport());
		const bars = [...svg.matchAll(/<rect x="\d+" y="\d+" width="([\d.]+)"/g)];
		const [bulk = 0, other = 0, ours = 0] = bars.map(([, width]) => Number(width));
		expect(bars).toHaveLength(3);
		// The longest line of a panel, to the best of all rounds, fills it.
		expect(ours / other).toBeCloseTo(1.3, 1);
		expect(ours / bulk).toBeCloseTo(13 / 14, 1);
		expect(svg).toContain(">a&lt;b<");
		expect(svg).toContain("new connections, k/s");
		expect(svg).not.toContain("processor time");
	});

	it("leaves socat out where its bar would make all others a line", () => {
		const spread = { median: 1, min: 1, max: 1 };
		const rows = aReport().rows.map((row) => ({
			...row,
			figures: { socat: spread, nginx: spread },
		}));
		const chart = (better: "more" | "less") =>
			chartOf({
				...aReport(),
				contenders: ["socat", "nginx"],
				rows: rows.map((row) => ({ ...row, better })),
			});
		expect(chart("more")).toContain(">socat<");
		expect(chart("less")).not.toContain(">socat<");
		expect(chart("less")).toContain(">nginx<");
	});

	it("is a picture of nothing where nothing of it was measured", () => {
		expect(chartOf({ ...aReport(), rows: [] })).toMatch(/^<svg .*<\/svg>\n$/s);
	});
});
