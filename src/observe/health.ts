import { IP_FAMILIES, type IpFamily } from "../services/address.ts";

export const HEALTH_PATHS = ["/healthz", "/livez", "/readyz"] as const;
export type HealthPath = (typeof HEALTH_PATHS)[number];

/**
 * What the daemon knows of its own health. Ages, not moments: a clock that is set must not make a
 * daemon look dead.
 */
export interface HealthFacts {
	/** The packet rules' sync period; what waits for twice as long is late. */
	readonly syncPeriodMs: number;
	/** The families that are served. */
	readonly families: readonly FamilyFacts[];
	/** Each runner of the sync. */
	readonly runners: readonly RunnerFacts[];
	/** True once the first complete state has reached listeners and kernel. */
	readonly firstSyncDone: boolean;
	readonly stopping: boolean;
	/** False when the cluster is about to remove this node; undefined where nobody knows. */
	readonly nodeEligible?: boolean | undefined;
	readonly sources: readonly HealthSource[];
}

interface FamilyFacts {
	readonly family: IpFamily;
	/** How long the oldest wanted change has waited to be in force, failed tries included. */
	readonly pendingMs: number | undefined;
	/** Since the rules were last applied, or found to be as wanted. */
	readonly syncedAgoMs: number | undefined;
}

/** See BoundedRunner. */
interface RunnerFacts {
	/** "model", "rules". */
	readonly name: string;
	/** How long the oldest request has waited for a run to begin. */
	readonly queuedMs: number | undefined;
	/** How long the present run has been going on. */
	readonly runningMs: number | undefined;
}

interface HealthSource {
	readonly name: string;
	readonly synced: boolean;
	readonly ageMs: number | undefined;
	readonly failing: boolean;
}

export interface HealthVerdict {
	/** No runner hangs: what the watchdog asks. A failing tool does not make it false, a restart would not help. */
	readonly progressing: boolean;
	/** Progressing, and no change has waited too long, whether for a hung or for a failing sync. */
	readonly live: boolean;
	/** Live, and the node is to get traffic. */
	readonly healthy: boolean;
	/** Healthy, the first complete state is in force, and no stop has begun. */
	readonly ready: boolean;
	readonly families: readonly { readonly family: IpFamily; readonly healthy: boolean }[];
	/** Why something above is false; empty when all is true. */
	readonly reasons: readonly string[];
}

/** A hung run is told from a slow one (a lock that is held, a large table) after this at the earliest. */
const MIN_HANG_MS = 60_000;

/**
 * Judges whether the daemon is alive, healthy and ready.
 *
 * A source that has been lost for any time does not count: the last state is being served. Its age
 * is shown beside the verdict.
 */
export function judgeHealth(facts: HealthFacts): HealthVerdict {
	const lateMs = 2 * facts.syncPeriodMs;
	const hung = facts.runners.filter((runner) => isHung(runner, Math.max(MIN_HANG_MS, lateMs)));
	const late = facts.families.filter(({ pendingMs = 0 }) => pendingMs > lateMs);
	const unsynced = facts.sources.filter(({ synced }) => !synced);
	const progressing = hung.length === 0;
	const live = progressing && late.length === 0;
	const healthy = live && facts.nodeEligible !== false;
	const ready = healthy && facts.firstSyncDone && !facts.stopping;
	const reasons = [
		...hung.map(({ name }) => `the ${name} sync makes no progress`),
		...late.map(({ family, pendingMs = 0 }) => `${family} rules are late by ${seconds(pendingMs)}`),
		...(facts.nodeEligible === false ? ["the node is about to be removed"] : []),
		...(facts.stopping ? ["stopping"] : []),
		...(facts.firstSyncDone ? [] : unsynced.map(({ name }) => `waiting for ${name}`)),
		...(facts.firstSyncDone || unsynced.length > 0 ? [] : ["the first sync is not done"]),
	];
	return {
		progressing,
		live,
		healthy,
		ready,
		families: IP_FAMILIES.filter((family) =>
			facts.families.some((one) => one.family === family),
		).map((family) => ({ family, healthy: !late.some((one) => one.family === family) })),
		reasons,
	};
}

function isHung({ queuedMs = 0, runningMs = 0 }: RunnerFacts, limitMs: number): boolean {
	return queuedMs > limitMs || runningMs > limitMs;
}

function seconds(ms: number): string {
	return `${Math.round(ms / 1_000)} s`;
}
