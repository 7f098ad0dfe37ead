import { type Clock, systemClock } from "../shared/clock.ts";
import {
	HEALTH_PATHS,
	type HealthFacts,
	type HealthPath,
	type HealthVerdict,
	judgeHealth,
} from "./health.ts";
import { type Route, sendJson } from "./http-router.ts";
import { kubernetesFamily } from "./sync-metrics.ts";

export interface HealthRoutesOptions {
	readonly health: () => HealthFacts;
	/** Told of every answer, for the metrics. */
	readonly onHealthAnswer?: (path: HealthPath, status: number) => void;
	readonly clock?: Clock;
}

/** `/healthz`, `/livez`, `/readyz`: 200 or 503, and why. */
export function healthRoutes(options: HealthRoutesOptions): readonly (readonly [string, Route])[] {
	const { health, onHealthAnswer, clock = systemClock } = options;
	return HEALTH_PATHS.map((path) => [
		path,
		{
			get: ({ response }) => {
				const facts = health();
				const verdict = judgeHealth(facts);
				const status = isWell(path, verdict) ? 200 : 503;
				onHealthAnswer?.(path, status);
				sendJson(response, status, healthBody(path, { facts, verdict, nowMs: clock.wallMs() }));
			},
		},
	]);
}

function isWell(path: HealthPath, { live, healthy, ready }: HealthVerdict): boolean {
	switch (path) {
		case "/livez":
			return live;
		case "/healthz":
			return healthy;
		case "/readyz":
			return ready;
	}
}

/**
 * kube-proxy's fields (lastUpdated is now while all is well, nodeEligible only in /healthz), and
 * ours: ready, reasons, sources. Anybody may read it: no texts of errors, no addresses of clients.
 */
function healthBody(
	path: HealthPath,
	{ facts, verdict, nowMs }: { facts: HealthFacts; verdict: HealthVerdict; nowMs: number },
): object {
	const healthy = isWell(path, verdict);
	const syncedAgoMs = facts.families.map((one) => one.syncedAgoMs ?? Number.POSITIVE_INFINITY);
	const lastUpdated = (isFine: boolean, agoMs: number): string | null =>
		isFine ? isoTime(nowMs) : Number.isFinite(agoMs) ? isoTime(nowMs - agoMs) : null;
	return {
		lastUpdated: lastUpdated(healthy, Math.max(...syncedAgoMs)),
		currentTime: isoTime(nowMs),
		...(path === "/healthz" ? { nodeEligible: facts.nodeEligible ?? true } : {}),
		healthy,
		status: Object.fromEntries(
			facts.families.map(({ family, syncedAgoMs: agoMs = Number.POSITIVE_INFINITY }) => {
				const isFine = verdict.families.find((one) => one.family === family)?.healthy ?? true;
				return [
					kubernetesFamily(family),
					{ lastUpdated: lastUpdated(isFine, agoMs), healthy: isFine },
				];
			}),
		),
		ready: verdict.ready,
		reasons: verdict.reasons,
		sources: facts.sources.map(({ name, synced, ageMs, failing }) => ({
			name,
			synced,
			ageSeconds: ageMs === undefined ? null : Math.round(ageMs / 1_000),
			failing,
		})),
	};
}

function isoTime(ms: number): string {
	return new Date(ms).toISOString();
}
