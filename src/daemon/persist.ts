import type { IpFamily } from "../services/address.ts";
import { Backoff } from "../shared/backoff.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError, errorCode, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";

/** What a try left undone for one family, and why. */
export interface Undone {
	readonly family: IpFamily;
	readonly error: Error;
}

export interface PersistOptions {
	/** One try; may be repeated whatever came of it. An empty answer: all is done. Never rejects. */
	readonly attempt: (signal: AbortSignal) => Promise<readonly Undone[]>;
	/** Ends the present try, and the trying. */
	readonly signal: AbortSignal;
	/** Constant text while it fails and is tried again. */
	readonly failing: string;
	/** Constant text when it has succeeded after that. */
	readonly recovered: string;
	readonly log: Log;
	readonly clock: Clock;
}

const FIRST_WAIT_MS = 200;
const MAX_WAIT_MS = 2_000;

/**
 * Tries until all is done, with growing waits, until the signal aborts or waiting is of no use.
 *
 * @returns what is undone at the end; empty: nothing.
 */
export async function persist(options: PersistOptions): Promise<readonly Undone[]> {
	const { attempt, signal, log, clock, failing, recovered } = options;
	const failure = new RecurringFailure({ log, clock, failing, recovered });
	const backoff = new Backoff({
		initialMs: FIRST_WAIT_MS,
		maxMs: MAX_WAIT_MS,
		factor: 2,
		jitter: 0.2,
	});
	let before: readonly Undone[] | undefined;
	for (;;) {
		// oxlint-disable-next-line no-await-in-loop -- each try is because of the one before
		const undone = await attempt(signal);
		if (undone.length === 0) failure.succeeded();
		if (signal.aborted) return wasCanceled(undone) ? (before ?? undone) : undone;
		if (undone.every(isHopeless)) return undone;
		before = undone;
		failure.failed(describeUndone(undone));
		// oxlint-disable-next-line no-await-in-loop -- a wait between tries
		await pause(backoff.next(), signal);
	}
}

/** "ipv4: Cannot …; ipv6: Cannot …" */
export function describeUndone(undone: readonly Undone[]): string {
	return undone.map(describeOne).join("; ");
}

function describeOne({ family, error }: Undone): string {
	const late = isCanceled(error) ? ", it did not end in time" : "";
	return `${family}: ${describeError(error)}${late}`;
}

function isHopeless({ error }: Undone): boolean {
	return error instanceof UserProxyError && !error.retriable;
}

/** Such a try tells less than the one before. */
function wasCanceled(undone: readonly Undone[]): boolean {
	return undone.length > 0 && undone.every(({ error }) => isCanceled(error));
}

function isCanceled(error: Error): boolean {
	return errorCode(error) === "COMMAND_CANCELED";
}

/** Ends early when the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
	const { promise, resolve } = Promise.withResolvers<void>();
	const timer = setTimeout(resolve, ms);
	const end = () => resolve();
	signal.addEventListener("abort", end, { once: true });
	await promise;
	clearTimeout(timer);
	signal.removeEventListener("abort", end);
}
