import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../test/kit/faulty-runner.ts";
import type { Stage } from "../demo/stage.ts";
import {
	claimBytes,
	claimEnds,
	claimLog,
	claimNothingLeft,
	claimSteadiness,
	claimWorker,
	type Remains,
	type WorkerLoss,
} from "./claims.ts";
import { Helper } from "./helper.ts";
import { allObjects, someObjects } from "./services.ts";
import { createSetting, type Setting } from "./setting.ts";
import { SoakTable } from "./soak-table.ts";
import type { TrafficReport } from "./traffic-books.ts";
import { areBack, type Descriptors, type Sample } from "./verdict.ts";

export interface SoakOptions {
	readonly minutes: number;
	readonly engine: string;
	readonly seed: number;
}

const SAMPLE_EVERY_S = 3;
const CHANGE_EVERY_S = 5;

/** A worker has to fail in the first third, which is not judged: its successor warms up, too. */
const WORKER_FAILS_AFTER = 1 / 6;

/** Flows end 5 s after their last datagram, and a half-closed connection after 20 s. */
const QUIET_MS = 60_000;

/** Everything, from the lab to the last claim. */
export async function soak(stage: Stage, options: SoakOptions): Promise<void> {
	const { minutes, engine, seed } = options;
	stage.title(`${minutes} minutes of traffic through --relay ${engine}, seed ${seed}`);
	const setting = await createSetting(engine);
	try {
		await play(stage, setting, options);
	} finally {
		await setting.close();
	}
}

async function play(stage: Stage, setting: Setting, options: SoakOptions): Promise<void> {
	const { lab, daemon, view } = setting;
	// One look, so that what the looking itself opens is there before and after.
	await view.sample(0);
	const before = view.descriptors();
	const clients = [lab.client, lab.outside].map(
		(namespace, index) => new Helper(namespace, "make-traffic.ts", String(options.seed + index)),
	);
	const { samples, loss } = await watch(setting, options);
	const reports = await Promise.all(
		clients.map(async (each) => (await each.end()) as TrafficReport),
	);
	await setting.write(allObjects());
	const remains = await quiet(setting, before);

	stage.pause();
	claimSteadiness(stage, samples);
	claimNothingLeft(stage, remains);
	claimEnds(stage, reports, loss);
	claimBytes(stage, reports, remains.metrics);
	if (options.engine === "syscall") claimWorker(stage, remains.metrics);
	const end = await daemon.stop();
	stage.claim("the daemon stops in order", end.code === 0, end);
	claimLog(stage, daemon.logs, loss);
}

/** Looks at the daemon and changes the manifests until the time is over. */
async function watch(
	setting: Setting,
	{ minutes, engine, seed }: SoakOptions,
): Promise<{ readonly samples: readonly Sample[]; readonly loss: WorkerLoss }> {
	const endS = minutes * 60;
	const random = seededRandom(seed);
	const table = new SoakTable(endS / SAMPLE_EVERY_S);
	const samples: Sample[] = [];
	let loss: WorkerLoss;
	let changeAtS = CHANGE_EVERY_S;
	const startedAtMs = performance.now();
	const nowS = (): number => (performance.now() - startedAtMs) / 1000;
	/* oxlint-disable no-await-in-loop -- one after the other */
	while (nowS() < endS) {
		await sleep(SAMPLE_EVERY_S * 1000);
		if (nowS() >= changeAtS) {
			changeAtS += CHANGE_EVERY_S;
			await setting.write(someObjects(random));
		}
		if (engine === "syscall" && loss === undefined && nowS() >= endS * WORKER_FAILS_AFTER) {
			loss = { atMs: Date.now() };
			await setting.view.failWorker();
			table.say("a worker was made to fail");
			continue;
		}
		const sample = await setting.view.sample(nowS());
		samples.push(sample);
		table.add(sample);
	}
	/* oxlint-enable no-await-in-loop */
	return { samples, loss };
}

/** Waits until everything is as before, or for so long that something has to be wrong. */
async function quiet({ view }: Setting, before: Descriptors): Promise<Remains> {
	const endMs = performance.now() + QUIET_MS;
	for (;;) {
		// oxlint-disable-next-line no-await-in-loop -- polling
		const metrics = await view.metrics();
		const after = view.descriptors();
		const isQuiet = metrics.relayed() === 0 && areBack(before, after);
		if (isQuiet || performance.now() > endMs) return { metrics, before, after };
		// oxlint-disable-next-line no-await-in-loop -- polling
		await sleep(500);
	}
}
