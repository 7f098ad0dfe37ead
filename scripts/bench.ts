/**
 * Measures the daemon beside other proxies, in one run over the same lab: `npm run bench -- --help`.
 * Figures go to stdout, what happens meanwhile to stderr.
 */
import { accessSync, constants, existsSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Cell } from "./bench/cell.ts";
import { chartOf } from "./bench/chart.ts";
import { CONTENDERS, type Contender } from "./bench/contenders.ts";
import { disturbancesOf, problemsBefore, summarizeFooting } from "./bench/footing.ts";
import { gatherMachineFacts, type MachineFacts, programVersions } from "./bench/machine.ts";
import { MEASUREMENTS } from "./bench/measurements.ts";
import { type BenchOptions, benchHelp, readBenchOptions } from "./bench/options.ts";
import { contenderAt, explainLab, waitForPeers } from "./bench/outside-peers.ts";
import { type BenchReport, reportOf } from "./bench/report.ts";
import { Results } from "./bench/results.ts";
import { runTurn, WARM_UP_SECONDS } from "./bench/run-turn.ts";
import { scheduleOf, type Turn } from "./bench/schedule.ts";
import { createSetting } from "./bench/setting.ts";
import { figuresTable, ratiosTable, targetsTable, threeFigures } from "./bench/tables.ts";
import { UsageError } from "./bench/usage-error.ts";

const NAMES = { measurements: MEASUREMENTS.map(({ name }) => name), contenders: CONTENDERS };
/** Exit statuses, as the help tells them. */
const NO_FIGURES = 1;
const WRONG_USAGE = 2;
/** What a measurement takes to start and stop the contender, and to look whether it is quiet. */
const OTHER_SECONDS = 2.5;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
	try {
		const options = readBenchOptions(args, NAMES);
		if (options.help) {
			process.stdout.write(benchHelp(NAMES));
			return 0;
		}
		checkWritable("--json", options.jsonFile);
		checkWritable("--svg", options.svgFile);
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
		if (problems.length > 0 && !options.anyway) return sayNoFigures();
		say(`${turns.length} measurements, about ${minutesOf(turns, options.seconds)} min`);
		const cells = await runAll(turns, (turn) => runTurn(setting, turn, options.seconds));
		return conclude({ options, contenders, cells, facts, problems });
	} finally {
		await setting.close();
	}
}

function minutesOf(turns: readonly Turn[], seconds: number): number {
	return Math.ceil((turns.length * (seconds + WARM_UP_SECONDS + OTHER_SECONDS)) / 60);
}

/** @throws {UsageError} now, not when all is measured. */
function checkWritable(flag: string, file: string | undefined): void {
	if (file === undefined) return;
	try {
		accessSync(existsSync(file) ? file : dirname(file), constants.W_OK);
	} catch (error) {
		throw new UsageError(`${flag}: cannot write "${file}": ${(error as Error).message}`);
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

interface Run {
	readonly options: BenchOptions;
	readonly contenders: readonly Contender[];
	readonly cells: readonly Cell[];
	readonly facts: MachineFacts;
	/** Of the footing before it began. */
	readonly problems: readonly string[];
}

/** Prints and writes what was measured, or says why not. @returns the exit status. */
function conclude(run: Run): number {
	const { options, cells, problems } = run;
	const summary = summarizeFooting(cells);
	const allProblems = summary.isGood ? problems : [...problems, summary.text];
	if (!summary.isGood) say(`bad footing: ${summary.text}`);
	if (allProblems.length > 0 && !options.anyway) return sayNoFigures();
	if (cells.every(({ failure }) => failure !== undefined)) {
		say("no figures: every measurement failed");
		return NO_FIGURES;
	}
	const ours = run.contenders.filter(({ isOurs }) => isOurs).map(({ name }) => name);
	const results = new Results(cells);
	const report = reportOf(results, factsOf(run, allProblems, summary.text), ours);
	print(results, report, ours);
	const { jsonFile, svgFile } = options;
	if (jsonFile !== undefined) {
		writeFileSync(jsonFile, `${JSON.stringify(report, undefined, "\t")}\n`);
	}
	if (svgFile !== undefined) writeFileSync(svgFile, chartOf(report));
	return 0;
}

function factsOf(
	{ options: { rounds, seconds, bare }, contenders, cells, facts }: Run,
	problems: readonly string[],
	summary: string,
): Parameters<typeof reportOf>[1] {
	return {
		takenAt: new Date().toISOString(),
		rounds,
		secondsEach: seconds,
		warmUpSeconds: WARM_UP_SECONDS,
		contenders: contenders.map(({ name }) => name),
		footing: { ...facts, versions: programVersions(), isNodeTracking: !bare, problems, summary },
		cells,
	};
}

function print(results: Results, report: BenchReport, ours: readonly string[]): void {
	const { contenders, targets, footing } = report;
	const warning = footing.problems.length > 0 ? "ON BAD FOOTING, these figures mislead. " : "";
	// The summary is among the problems where it is one.
	const facts = new Set([...footing.problems, footing.summary]);
	const tables = [
		figuresTable(results, contenders),
		`${warning}Footing: ${[...facts].join("; ")}.`,
		...ours.toReversed().map((our) => ratiosTable(results, our, contenders)),
		...(targets.length === 0 ? [] : [targetsTable(targets)]),
	];
	process.stdout.write(`\n${tables.join("\n\n")}\n`);
}

function sayNoFigures(): number {
	say("no figures (--anyway gives them all the same)");
	return NO_FIGURES;
}

function say(message: string): void {
	process.stderr.write(`bench: ${message}\n`);
}
