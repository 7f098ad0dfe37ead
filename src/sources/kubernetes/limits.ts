/** Bounds of one reflector, in milliseconds and bytes. */
export interface ReflectorLimits {
	/** The headers of a list's page: the server itself gives up after 60 s. */
	readonly listHeadersMs: number;
	/** The body of a page may be silent this long. */
	readonly listIdleMs: number;
	/**
	 * A streaming list may bring neither headers nor a byte this long. Servers that know it begin at
	 * once; ones that do not may take it for a watch without events and say nothing for ever.
	 */
	readonly streamIdleMs: number;
	/** Each such stretch of a streaming list has to bring so many objects. See {@link ListPace}. */
	readonly streamWindowMs: number;
	readonly streamWindowObjects: number;
	/** A server whose streaming lists do not work is asked for pages only for this long. */
	readonly streamRetryMs: number;
	/** One page, or all of a streaming list. */
	readonly listTotalMs: number;
	/**
	 * One page. A list "at version 0" comes out of the server's cache whole, whatever limit was asked
	 * for; one beyond this bound is asked for anew at the newest version, where pages are small.
	 */
	readonly maxPageBytes: number;
	/** One event of a watch; etcd refuses objects beyond 1.5 MB by default. */
	readonly maxEventBytes: number;
	/** The headers of a watch, and the answer of discovery. */
	readonly watchHeadersMs: number;
	/** How long a watch may be silent. See {@link Reflector}. */
	readonly watchIdleMs: number;
	/** ... and that of this node's Node: above the 60 s after which a bookmark comes. */
	readonly nodeWatchIdleMs: number;
	/** The server ends a watch after a random time between these (client-go's). */
	readonly watchTimeoutMs: readonly [number, number];
	/** ... and a quiet one between these, before it looks dead. Random: nodes must not ask in step. */
	readonly quietWatchTimeoutMs: readonly [number, number];
	/** Changes in one quiet watch after which the next one need not be short. */
	readonly busyWatchChanges: number;
	/** A watch that ends sooner than this, without an event, has failed (client-go's). */
	readonly shortWatchMs: number;
	/** Such watches in a row, until the list is read anew. */
	readonly shortWatches: number;
	/** Waits between tries (client-go's): the first, the longest, and the calm after which they start over. */
	readonly firstWaitMs: number;
	readonly maxWaitMs: number;
	readonly calmMs: number;
	/** A server's Retry-After is honoured up to this. */
	readonly maxRetryAfterMs: number;
}

export const DEFAULT_LIMITS: ReflectorLimits = {
	listHeadersMs: 60_000,
	listIdleMs: 30_000,
	streamIdleMs: 5_000,
	streamWindowMs: 5_000,
	streamWindowObjects: 25,
	streamRetryMs: 3_600_000,
	listTotalMs: 300_000,
	maxPageBytes: 256 * 1024 * 1024,
	maxEventBytes: 16 * 1024 * 1024,
	watchHeadersMs: 30_000,
	watchIdleMs: 57_000,
	nodeWatchIdleMs: 75_000,
	watchTimeoutMs: [300_000, 600_000],
	quietWatchTimeoutMs: [40_000, 50_000],
	busyWatchChanges: 5,
	shortWatchMs: 1_000,
	shortWatches: 5,
	firstWaitMs: 800,
	maxWaitMs: 30_000,
	calmMs: 120_000,
	maxRetryAfterMs: 60_000,
};
