import type { LabNamespace } from "../../test/kit/lab-namespace.ts";
import type { Cell } from "./cell.ts";
import type { Figures } from "./figures.ts";
import { otherLoadNow, processorTimes, stolenShare } from "./machine.ts";
import type { Turn } from "./schedule.ts";
import type { Setting } from "./setting.ts";

/** Of load that is not measured, before that which is: V8 compiles at first, the others warm their caches. */
export const WARM_UP_SECONDS = 2;

/** Long enough for what the contender before has left to the kernel, and to see who else is busy. */
const PAUSE_MS = 500;

/** Starts the contender, warms it up, measures, and stops it again. A failure is its cell's, not the run's. */
export async function runTurn(setting: Setting, turn: Turn, seconds: number): Promise<Cell> {
	await clearTheWay(setting);
	const otherLoad = await otherLoadNow(PAUSE_MS);
	const outcome = await measured(setting, turn, seconds);
	return {
		round: turn.round,
		measurement: turn.measurement.name,
		contender: turn.contender.name,
		figures: outcome.figures,
		...(outcome.failure === undefined ? {} : { failure: outcome.failure }),
		footing: { otherLoad, stolen: outcome.stolen, ...(await leftBehind(setting)) },
	};
}

async function measured(
	setting: Setting,
	{ contender, measurement }: Turn,
	seconds: number,
): Promise<{ readonly figures: Figures; readonly stolen: number; readonly failure?: string }> {
	let stolen = 0;
	try {
		const running = await contender.start(setting);
		try {
			await measurement.warmUp(setting, running, WARM_UP_SECONDS);
			const before = processorTimes();
			const figures = await measurement.measure(setting, running, seconds);
			stolen = stolenShare(before, processorTimes());
			return { figures, stolen };
		} finally {
			await running.stop();
		}
	} catch (error) {
		return { figures: {}, stolen, failure: error instanceof Error ? error.message : String(error) };
	}
}

/** Nothing of one measurement may weigh on the next. */
async function clearTheWay({ lab: { client, node, endpoints } }: Setting): Promise<void> {
	await node.exec("conntrack", ["-F"], { mayFail: true });
	// A kernel that cannot close them leaves them there, and the count at the end tells.
	const closeTimeWait = "ss --kill --tcp --no-header state time-wait >/dev/null 2>&1";
	for (const namespace of [client, node, ...endpoints]) {
		// oxlint-disable-next-line no-await-in-loop -- in turn is quick enough, and two processors are few
		await namespace.exec("sh", ["-c", closeTimeWait], { mayFail: true });
	}
}

async function leftBehind({ lab: { client, node }, endpoint }: Setting): Promise<{
	readonly clientTimeWait: number;
	readonly nodeTimeWait: number;
	readonly conntrack: number;
}> {
	// The ports of the node that clients connect to are no ports that it could run out of.
	const towardsEndpoint = ["dst", `${endpoint.address}`];
	const { stdout } = await node.exec("cat", [
		"/proc/sys/net/netfilter/nf_conntrack_count",
		"/proc/sys/net/netfilter/nf_conntrack_max",
	]);
	const [count = 0, max = 1] = stdout.split("\n").map(Number);
	return {
		clientTimeWait: await timeWaitCount(client),
		nodeTimeWait: await timeWaitCount(node, towardsEndpoint),
		conntrack: count / max,
	};
}

async function timeWaitCount(
	namespace: LabNamespace,
	filter: readonly string[] = [],
): Promise<number> {
	const { stdout } = await namespace.exec("ss", [
		"--tcp",
		"--numeric",
		"--no-header",
		"state",
		"time-wait",
		...filter,
	]);
	return stdout.split("\n").length - 1;
}
