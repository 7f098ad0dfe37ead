import type { LogLine } from "../../test/kit/daemon-process.ts";
import type { Stage } from "../demo/stage.ts";
import type { Metrics } from "./daemon-view.ts";
import { SERVICES, TRAFFIC_KINDS } from "./services.ts";
import { grouped, mebibytes } from "./soak-table.ts";
import type { DatedFailure, TrafficReport } from "./traffic-books.ts";
import {
	type Allowance,
	accountProblems,
	areBack,
	type Descriptors,
	HEAP_ALLOWANCE,
	judgeSteadiness,
	NO_ACCOUNT,
	RESIDENT_ALLOWANCE,
	type Sample,
	sumOf,
} from "./verdict.ts";

/** When a worker was made to fail, in milliseconds since the epoch. */
export type WorkerLoss = { readonly atMs: number } | undefined;

/** From when a worker is to fail until its successor serves. */
const WORKER_LOSS_MS = 5_000;

/** Of what was found wrong, so much is printed. */
const MAX_SHOWN = 5;

export function claimSteadiness(stage: Stage, samples: readonly Sample[]): void {
	const judge = (what: string, values: readonly number[], allowance: Allowance): void => {
		const { isSteady, middle, last, limit } = judgeSteadiness(values, allowance);
		stage.claim(
			`${what} is steady: ${mebibytes(middle)} MiB in the middle third, ${mebibytes(last)} MiB in the last`,
			isSteady,
			`it has grown; at most ${mebibytes(limit)} MiB was wanted`,
		);
	};
	const heaps = samples.map(({ heapBytes }) => heapBytes);
	const resident = samples.map(({ residentBytes }) => residentBytes);
	judge("what the heap holds", heaps, HEAP_ALLOWANCE);
	judge("resident memory", resident, RESIDENT_ALLOWANCE);
}

/** What is there when the traffic is over. */
export interface Remains {
	readonly metrics: Metrics;
	/** By kind, of before the traffic and of now. */
	readonly before: Descriptors;
	readonly after: Descriptors;
}

export function claimNothingLeft(stage: Stage, { metrics, before, after }: Remains): void {
	const relayed = metrics.relayed();
	stage.claim("no connection and no flow is left", relayed === 0, `there are ${relayed}`);
	const numbers = (kinds: Descriptors) =>
		[...kinds].map(([kind, count]) => `${count} ${kind}`).join(", ");
	stage.claim(
		`descriptors are back to where they were: ${numbers(after)}`,
		areBack(before, after),
		`before there were ${numbers(before)}`,
	);
}

/** What its clients say of how connections and datagrams ended. */
export function claimEnds(stage: Stage, reports: readonly TrafficReport[], loss: WorkerLoss): void {
	const faults = reports.flatMap((report) => report.faults);
	stage.claim("whoever was cut was told so", faults.length === 0, faults.slice(0, MAX_SHOWN));
	const failures = reports.flatMap((report) => report.failures);
	const unexplained = failures.filter((failure) => !isOfLoss(failure, loss));
	const lost = failures.length - unexplained.length;
	stage.claim(
		`all else came whole and ended in order${loss === undefined ? "" : `, but for ${lost} lost with a worker`}`,
		unexplained.length === 0,
		unexplained.slice(0, MAX_SHOWN),
	);
}

/** Whether the daemon's counters are what its clients say. */
export function claimBytes(
	stage: Stage,
	reports: readonly TrafficReport[],
	metrics: Metrics,
): void {
	const problems = TRAFFIC_KINDS.flatMap((kind) => {
		const account = reports.reduce((sum, report) => sumOf(sum, report.accounts[kind]), NO_ACCOUNT);
		if (account.bytesOut.least === 0 && kind !== "resets") return [`${kind}: nothing was answered`];
		return accountProblems(account, metrics.of(SERVICES[kind])).map((what) => `${kind}: ${what}`);
	});
	const { served, movedBytes } = metrics.totals();
	stage.claim(
		`each byte is accounted for: ${grouped(served)} connections and flows, ${mebibytes(movedBytes)} MiB`,
		problems.length === 0,
		problems,
	);
}

export function claimWorker(stage: Stage, metrics: Metrics): void {
	const failures = metrics.sum("kube_userproxy_worker_failures_total");
	stage.claim("one worker was made to fail, and no other did", failures === 1, failures);
}

export function claimLog(stage: Stage, logs: readonly LogLine[], loss: WorkerLoss): void {
	const saidAt = (wanted: string) =>
		logs.filter(({ level }) => level === wanted).map(({ msg }) => msg);
	const errors = saidAt("error");
	const wanted = loss === undefined ? [] : ["relay worker ended, another takes its place"];
	const what = loss === undefined ? "no error" : "no error but the worker's";
	stage.claim(`the log has ${what}`, errors.join() === wanted.join(), errors.slice(0, MAX_SHOWN));
	const warnings = saidAt("warn");
	stage.claim("and no warning", warnings.length === 0, warnings.slice(0, MAX_SHOWN));
}

function isOfLoss({ startedAtMs, endedAtMs }: DatedFailure, loss: WorkerLoss): boolean {
	return loss !== undefined && startedAtMs < loss.atMs + WORKER_LOSS_MS && endedAtMs > loss.atMs;
}
