import type { Snapshot } from "../services/objects.ts";

/**
 * Where Services and EndpointSlices come from: a cluster, or files.
 *
 * A source keeps its own newest state; the daemon is told that something changed and asks for a
 * snapshot when it gets round to it.
 */
export interface Source {
	/** "kubernetes https://192.0.2.10:6443", "manifests /etc/kube-userproxy": for logs and status. */
	readonly name: string;

	/**
	 * Begins to read and returns at once; reads until the signal aborts, whatever goes wrong.
	 *
	 * @param onChange called after every change of the state, and when the first complete state is
	 * there; cheap to call often. Never called after the abort.
	 */
	start(onChange: () => void, signal: AbortSignal): void;

	/** True once a first complete state has been read; never false again. */
	isSynced(): boolean;

	/** The newest state. Before {@link isSynced}, what is known so far. */
	snapshot(): Snapshot;

	status(): SourceStatus;

	/**
	 * Looks at everything again now (SIGHUP), for sources that could miss a change. Returns at once;
	 * a change is told as any other. Does nothing before the start and after the abort.
	 */
	refresh?(): void;

	/** Resolves when, after the abort, nothing of it is open any more. */
	closed(): Promise<void>;
}

export interface SourceStatus {
	readonly name: string;
	readonly synced: boolean;
	/**
	 * When the state was last known to be the newest, in milliseconds since the epoch; undefined
	 * before the first complete state. Its age is what health and metrics show.
	 */
	readonly freshAtMs: number | undefined;
	/** What goes wrong at present, as a person would want to read it; undefined when all is well. */
	readonly problem: string | undefined;
	/** Objects that were refused and are left out at present, at most 100. */
	readonly rejected: readonly RejectedObject[];
}

export interface RejectedObject {
	/** "Service shop/cart", with file and document where it came from a file. */
	readonly object: string;
	/** "spec.ports[0].port: wanted an integer in 1..65535, got 70000". */
	readonly problems: readonly string[];
}
