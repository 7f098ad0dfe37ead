import type { Cell, CellFooting } from "./cell.ts";
import type { MachineFacts } from "./machine.ts";

/** Of other programs before and between measurements: with more, figures say nothing of a proxy. */
const MAX_OTHER_LOAD = 0.1;
const MAX_STOLEN = 0.05;
/** Of the 63,977 ports that the lab gives to clients. With more, finding a free one is what takes the time. */
const MAX_TIME_WAIT = 50_000;
const MAX_CONNTRACK = 0.9;
/** Of all cells; their medians stand one of several rounds that was disturbed. */
const MAX_DISTURBED_SHARE = 0.1;

/** More new connections a second than any contender makes on any machine that we know; a proxy's count twice. */
const TRACKED_A_SECOND = 40_000;
/** Both legs of the idle connections, and some. */
const DESCRIPTORS_WANTED = 18_000;
const PROCESSORS_WANTED = 2;

/**
 * Why a run on this machine would give no figures worth having; none: it may begin.
 *
 * @param secondsEach of load, the warm-up included.
 */
export function problemsBefore(
	facts: MachineFacts,
	secondsEach: number,
	isIdleMeasured: boolean,
): readonly string[] {
	const { processors, conntrackMax, descriptorLimit, otherLoad } = facts;
	const tracked = secondsEach * TRACKED_A_SECOND;
	return [
		processors < PROCESSORS_WANTED &&
			`there is ${processors} processor, wanted ${PROCESSORS_WANTED}: load and proxy would take it from each other`,
		!(conntrackMax >= tracked) &&
			`net.netfilter.nf_conntrack_max is ${conntrackMax}, wanted ${tracked} for ${secondsEach} s of new connections: a full table is what would be measured (fewer --seconds need less)`,
		isIdleMeasured &&
			descriptorLimit < DESCRIPTORS_WANTED &&
			`a process may have ${descriptorLimit} files open, wanted ${DESCRIPTORS_WANTED} for the idle connections (ulimit -n)`,
		otherLoad > MAX_OTHER_LOAD &&
			`other programs use ${percent(otherLoad)} of the processors, wanted at most ${percent(MAX_OTHER_LOAD)}`,
	].filter((problem) => problem !== false);
}

/** What was wrong at the moment of one measurement; none: it counts. */
export function disturbancesOf(footing: CellFooting): readonly string[] {
	const { otherLoad, stolen, clientTimeWait, nodeTimeWait, conntrack } = footing;
	return [
		otherLoad > MAX_OTHER_LOAD && `other load ${percent(otherLoad)}`,
		stolen > MAX_STOLEN && `${percent(stolen)} stolen by other guests`,
		clientTimeWait > MAX_TIME_WAIT && `${clientTimeWait} ports of the client in TIME_WAIT`,
		nodeTimeWait > MAX_TIME_WAIT && `${nodeTimeWait} ports of the node in TIME_WAIT`,
		conntrack > MAX_CONNTRACK && `connection tracking ${percent(conntrack)} full`,
	].filter((disturbance) => disturbance !== false);
}

/** Whether a run stood on good footing, in numbers for its line under the table. */
export interface FootingSummary {
	readonly isGood: boolean;
	readonly text: string;
}

export function summarizeFooting(cells: readonly Cell[]): FootingSummary {
	const disturbed = cells.filter(({ footing }) => disturbancesOf(footing).length > 0).length;
	const allowed = Math.max(1, Math.floor(cells.length * MAX_DISTURBED_SHARE));
	const most = (of: (footing: CellFooting) => number) =>
		Math.max(0, ...cells.map(({ footing }) => of(footing)));
	return {
		isGood: disturbed <= allowed,
		text: [
			`${disturbed} of ${cells.length} measurements disturbed (at most ${allowed} may be)`,
			`other load up to ${percent(most(({ otherLoad }) => otherLoad))}`,
			`stolen up to ${percent(most(({ stolen }) => stolen))}`,
			`TIME_WAIT up to ${most(({ clientTimeWait }) => clientTimeWait)} (client), ${most(({ nodeTimeWait }) => nodeTimeWait)} (node)`,
			`connection tracking up to ${percent(most(({ conntrack }) => conntrack))} full`,
		].join("; "),
	};
}

function percent(share: number): string {
	return `${Math.round(share * 100)} %`;
}
