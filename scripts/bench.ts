/**
 * Measures the daemon beside other proxies, in one run over the same lab: `npm run bench -- --help`.
 * Figures go to stdout, what happens meanwhile to stderr.
 */
import { writeFileSync } from "node:fs";
import type { Cell } from "./bench/cell.ts";
import { chartOf } from "./bench/chart.ts";
import { CONTENDERS, type Contender } from "./bench/contenders.ts";
import { disturbancesOf, problemsBefore, summarizeFooting } from "./bench/footing.ts";
import { gatherMachineFacts, programVersions } from "./bench/machine.ts";
import { MEASUREMENTS } from "./bench/measurements.ts";
import { type BenchOptions, benchHelp, readBenchOptions } from "./bench/options.ts";
import { contenderAt, explainLab, waitForPeers } from "./bench/outside-peers.ts";
import { reportOf } from "./bench/report.ts";
import { Results } from "./bench/results.ts";
import { runTurn, WARM_UP_SECONDS } from "./bench/run-turn.ts";
import { scheduleOf, type Turn } from "./bench/schedule.ts";
import { createSetting } from "./bench/setting.ts";
import { figuresTable, ratiosTable, targetsTable, threeFigures } from "./bench/tables.ts";
import { judgeTargets } from "./bench/targets.ts";
import { UsageError } from "./bench/usage-error.ts";

const NAMES = { measurements: MEASUREMENTS.map(({ name }) => name), contenders: CONTENDERS };
/** Exit statuses, as the help tells them. */
const NO_FIGURES = 1;
const WRONG_USAGE = 2;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
	try {
		const options = readBenchOptions(args, NAMES);
		if (options.help) {
			process.stdout.write(benchHelp(NAMES));
			return 0;
		}
		// The lab goes with the process, and so do its files.
		for (const signal of ["SIGINT", "SIGTERM"] as const)
			process.on(signal, () => process.exit(130));
		return await bench(options);
	} catch (error) {
		say(error instanceof Error ? error.message : String(error));
		return error instanceof UsageError ? WRONG_USAGE : NO_FIGURES;
	}
}

async function bench(options: BenchOptions): Promise<number> {
	const contenders = [
		...CONTENDERS.filter(({ name }) => options.contenders.includes(name)),
		...options.peers.map(contenderAt),
	];
	const measurements = MEASUREMENTS.filter(({ name }) => options.measurements.includes(name));
	const turns = scheduleOf(options.rounds, measurements, contenders);
	const setting = await createSetting({ isTracked: !options.bare });
	try {
		if (options.peers.length > 0) {
			process.stderr.write(explainLab(setting, options.peers, privateLabPid()));
			await waitForPeers(setting, options.peers);
		}
		const facts = await gatherMachineFacts();
		const isIdleMeasured = options.measurements.includes("idle");
		const problems = problemsBefore(facts, options.seconds + WARM_UP_SECONDS, isIdleMeasured);
		for (const problem of problems) say(`bad footing: ${problem}`);
		if (problems.length > 0 && !options.anyway) {
			say("no figures (--anyway gives them all the same)");
			return NO_FIGURES;
		}
		const cells = await runAll(turns, (turn) => runTurn(setting, turn, options.seconds));
		return conclude({ options, contenders, cells, facts, problems });
	} finally {
		await setting.close();
	}
}

/** The pid by which others enter a lab that only this process's children see. */
function privateLabPid(): number | undefined {
	return process.env["KUP_PRIVATE_LAB"] === undefined ? undefined : process.pid;
}

async function runAll(
	turns: readonly Turn[],
	run: (turn: Turn) => Promise<Cell>,
): Promise<readonly Cell[]> {
	const cells: Cell[] = [];
	for (const turn of turns) {
		// oxlint-disable-next-line no-await-in-loop -- two at a time would measure each other
		const cell = await run(turn);
		cells.push(cell);
		process.stderr.write(`[${cells.length}/${turns.length}] ${lineOf(cell)}\n`);
	}
	return cells;
}

function lineOf({ round, measurement, contender, figures, failure, footing }: Cell): string {
	const [first] = Object.values(figures);
	const said = failure === undefined ? threeFigures(first ?? Number.NaN) : `FAILED: ${failure}`;
	const disturbances = disturbancesOf(footing).map((each) => `  (${each})`);
	return `round ${round}  ${measurement.padEnd(12)}  ${contender.padEnd(13)}  ${said}${disturbances.join("")}`;
}

interface Conclusion {
	readonly options: BenchOptions;
	readonly contenders: readonly Contender[];
	readonly cells: readonly Cell[];
	readonly facts: Awaited<ReturnType<typeof gatherMachineFacts>>;
	readonly problems: readonly string[];
}

/** Prints and writes what was measured, or says why not. @returns the exit status. */
function conclude({ options, contenders, cells, facts, problems }: Conclusion): number {
	const summary = summarizeFooting(cells);
	const allProblems = summary.isGood ? problems : [...problems, summary.text];
	if (!summary.isGood) say(`bad footing: ${summary.text}`);
	if (allProblems.length > 0 && !options.anyway) {
		say("no figures (--anyway gives them all the same)");
		return NO_FIGURES;
	}
	if (cells.every(({ failure }) => failure !== undefined)) {
		say("no figures: every measurement failed");
		return NO_FIGURES;
	}
	const names = contenders.map(({ name }) => name);
	const ours = names.filter((name) => /^(?:syscall|stream)/.test(name)).toReversed();
	const results = new Results(cells);
	const warning = allProblems.length > 0 ? "ON BAD FOOTING: these figures mislead. " : "";
	const targets = judgeTargets(results);
	const tables = [
		figuresTable(results, names),
		`${warning}Footing: ${[...problems, summary.text].join("; ")}.`,
		...ours.map((our) => ratiosTable(results, our, names)),
		...(targets.length === 0 ? [] : [targetsTable(targets)]),
	];
	process.stdout.write(`\n${tables.join("\n\n")}\n`);
	const { rounds, seconds, bare } = options;
	const report = reportOf(
		results,
		{
			takenAt: new Date().toISOString(),
			rounds,
			secondsEach: seconds,
			warmUpSeconds: WARM_UP_SECONDS,
			contenders: names,
			footing: {
				...facts,
				versions: programVersions(),
				isNodeTracking: !bare,
				problems: allProblems,
				summary: summary.text,
			},
			cells,
		},
		ours,
	);
	if (options.jsonFile !== undefined) {
		writeFileSync(options.jsonFile, `${JSON.stringify(report, undefined, "\t")}\n`);
	}
	if (options.svgFile !== undefined) writeFileSync(options.svgFile, chartOf(report));
	return 0;
}

function say(message: string): void {
	process.stderr.write(`bench: ${message}\n`);
}
