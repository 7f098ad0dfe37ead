import { MAX_DURATION_MS } from "../config/duration.ts";
import type { RelayEngine } from "../proxies/engine.ts";
import type { Clock } from "../shared/clock.ts";
import type { Log } from "../shared/log.ts";
import type { RulesDriver } from "./rules-driver.ts";
import type { Sync } from "./sync.ts";

/** What a stop ends, in the order of {@link stopServing}. */
export interface StopParts {
	readonly sync: Pick<Sync, "stop"> | undefined;
	readonly rules: Pick<RulesDriver, "captureOff" | "remove" | "cleanFlowsForTheLastTime">;
	readonly engine: Pick<RelayEngine, "stats" | "drain" | "close"> | undefined;
	/** What carries no traffic, by the name that the log gives it. */
	readonly others: ReadonlyMap<string, () => Promise<unknown>>;
	readonly drainTimeoutMs: number;
	/** Resolves when connections are not to be waited for any longer. */
	readonly hurry: Promise<void>;
	readonly log: Log;
	readonly clock: Clock;
}

export interface StopResult {
	/** False where packet rules are left, or nobody can tell whether they are. */
	readonly rulesAreGone: boolean;
}

/** How long each step may take, beside the drain. Programs that hang are ended then. */
const BOUNDS_MS = {
	/** As long as an iptables-restore waits for the xtables lock, and one more try. */
	captureOff: 6_000,
	removal: 20_000,
	/** A flow that is left over ends when its client pauses. */
	flows: 3_000,
	others: 2_000,
} as const;

/**
 * A stop takes no longer than the drain time and this, in milliseconds, whatever hangs; the unit's
 * TimeoutStopSec= has to be longer.
 */
export const STOP_MARGIN_MS = Object.values(BOUNDS_MS).reduce((sum, ms) => sum + ms, 0);

/**
 * Stops in order: no pass of the sync, no new connection, the drain, no connection, no rule, no UDP flow
 * that is led to a port of ours, and then what carries no traffic. Never rejects for a program that fails.
 */
export async function stopServing(parts: StopParts): Promise<StopResult> {
	const { sync, rules, engine, drainTimeoutMs, clock } = parts;
	const drainUntilMs = clock.monotonicMs() + drainTimeoutMs;
	return await within(drainTimeoutMs + STOP_MARGIN_MS, undefined, async (deadline) => {
		await sync?.stop();
		await drainWithoutCapture(parts, drainUntilMs, deadline);
		// What is cut off is reset, and without the rules' NAT the reset would not reach its client.
		await engine?.close();
		const rulesAreGone = await within(BOUNDS_MS.removal, deadline, (signal) =>
			rules.remove(signal),
		);
		if (rulesAreGone) {
			await within(BOUNDS_MS.flows, deadline, (signal) => rules.cleanFlowsForTheLastTime(signal));
		}
		await closeOthers(parts, deadline);
		return { rulesAreGone };
	});
}

/** Capture that cannot be switched off holds up the drain for a moment only; trying goes on beside it. */
async function drainWithoutCapture(
	parts: StopParts,
	drainUntilMs: number,
	deadline: AbortSignal,
): Promise<void> {
	const { rules, clock } = parts;
	const drained = new AbortController();
	const captureOff = rules.captureOff(AbortSignal.any([deadline, drained.signal]));
	await within(BOUNDS_MS.captureOff, deadline, (limit) =>
		Promise.race([captureOff, aborted(limit)]),
	);
	await drain(parts, Math.max(0, drainUntilMs - clock.monotonicMs()));
	// What captures still is removed with all other rules.
	drained.abort();
	await captureOff;
}

async function drain({ engine, hurry, log }: StopParts, timeoutMs: number): Promise<void> {
	if (engine === undefined) return;
	const { tcpConnections } = engine.stats();
	if (tcpConnections === 0) return;
	if (timeoutMs > 0) {
		log.info(
			{ connections: tcpConnections, timeoutMs: Math.round(timeoutMs) },
			"waiting for connections to end",
		);
	}
	const left = await Promise.race([
		engine.drain(timeoutMs),
		hurry.then(() => engine.stats().tcpConnections),
	]);
	if (left > 0) log.warn({ connections: left }, "connections are cut off");
}

async function closeOthers({ others, log }: StopParts, deadline: AbortSignal): Promise<void> {
	const open = new Set(others.keys());
	const closing = [...others].map(async ([name, close]) => {
		await close();
		open.delete(name);
	});
	await within(BOUNDS_MS.others, deadline, async (limit) => {
		await Promise.race([Promise.all(closing), aborted(limit)]);
		if (open.size > 0) log.warn({ open: [...open] }, "not everything has closed in time");
	});
}

/** Does work that has to heed the signal, which aborts after `ms` and with the outer one. */
async function within<T>(
	ms: number,
	outer: AbortSignal | undefined,
	work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
	const limit = new AbortController();
	const timer = setTimeout(() => limit.abort(), Math.min(ms, MAX_DURATION_MS));
	try {
		return await work(outer === undefined ? limit.signal : AbortSignal.any([outer, limit.signal]));
	} finally {
		clearTimeout(timer);
	}
}

function aborted(signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		if (signal.aborted) resolve();
		signal.addEventListener("abort", () => resolve(), { once: true });
	});
}
