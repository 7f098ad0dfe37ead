import type { Config } from "../config/config.ts";
import type { Snapshot } from "../services/objects.ts";
import { silentLog } from "../shared/log.ts";
import { readManifestsOnce } from "../sources/manifests/read-once.ts";
import { mergeSnapshots } from "../sources/merge-snapshots.ts";
import type { Source } from "../sources/source.ts";

/** What every configured source has at one moment. */
export interface ListedSources {
	readonly snapshot: Snapshot;
	/** One per source, manifests first. */
	readonly sources: readonly ListedSource[];
}

export interface ListedSource {
	/** "manifests", "kubernetes https://192.0.2.10:6443". */
	readonly name: string;
	/** False: nothing of it could be read. */
	readonly isComplete: boolean;
	/** One line each; objects that are left out among them. */
	readonly problems: readonly string[];
}

interface Reading extends ListedSource {
	readonly snapshot: Snapshot;
}

/** A list of a large cluster takes seconds; a server that is not there is told by then as well. */
const CLUSTER_TIMEOUT_MS = 20_000;

/** How long a source may have one and the same problem before it is taken for lasting. */
const PATIENCE_MS = 3_000;

/** Reads manifests and cluster once, without watching. Never rejects. */
export async function readSources(
	config: Config,
	env: Readonly<Record<string, string | undefined>>,
	signal: AbortSignal,
): Promise<ListedSources> {
	const readings = [
		...(config.manifests.length === 0 ? [] : [await readManifests(config)]),
		...(config.cluster === undefined ? [] : [await readCluster(config, env, signal)]),
	];
	return {
		snapshot: mergeSnapshots(readings.map(({ snapshot }) => snapshot)).snapshot,
		sources: readings,
	};
}

async function readManifests({ manifests, nodeName }: Config): Promise<Reading> {
	const { snapshot, problems } = await readManifestsOnce(manifests, nodeName);
	const isComplete = snapshot.services.size > 0 || problems.length === 0;
	return { name: `manifests ${manifests.join(", ")}`, isComplete, problems, snapshot };
}

async function readCluster(
	config: Config,
	env: Readonly<Record<string, string | undefined>>,
	signal: AbortSignal,
): Promise<Reading> {
	const { createKubernetesSource } = await import("../sources/kubernetes/kubernetes-source.ts");
	const { cluster, nodeName, serviceProxyName } = config;
	if (cluster === undefined) throw new TypeError("Cannot read a cluster that is not configured");
	const log = silentLog;
	return await readSourceOnce(
		createKubernetesSource({ cluster, nodeName, serviceProxyName, log, env }),
		signal,
	);
}

/** Starts a source, waits for its first complete state or a problem that stays, and closes it. */
export async function readSourceOnce(
	source: Source,
	signal: AbortSignal,
	{ timeoutMs = CLUSTER_TIMEOUT_MS, patienceMs = PATIENCE_MS } = {},
): Promise<Reading> {
	const abort = new AbortController();
	const over = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
	await new Promise<void>((resolve) => {
		let problemSinceMs: number | undefined;
		const look = (): void => {
			const hasProblem = source.status().problem !== undefined;
			problemSinceMs = hasProblem ? (problemSinceMs ?? performance.now()) : undefined;
			const isStuck =
				problemSinceMs !== undefined && performance.now() - problemSinceMs >= patienceMs;
			if (source.isSynced() || isStuck || over.aborted) {
				clearInterval(timer);
				resolve();
			}
		};
		const timer = setInterval(look, Math.min(100, patienceMs));
		source.start(look, abort.signal);
		look();
	});
	const { name, problem, rejected } = source.status();
	const snapshot = source.snapshot();
	const isComplete = source.isSynced();
	abort.abort();
	await source.closed();
	const problems = [
		...(isComplete ? [] : [problem ?? `no answer within ${Math.round(timeoutMs / 1000)} s`]),
		...rejected.map(({ object, problems: of }) => `${object} is left out: ${of.join("; ")}`),
	];
	return { name, isComplete, problems, snapshot };
}
