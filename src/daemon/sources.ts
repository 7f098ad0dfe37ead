import type { Config } from "../config/config.ts";
import type { Snapshot } from "../services/objects.ts";
import type { Log } from "../shared/log.ts";
import { createManifestSource } from "../sources/manifests/manifest-source.ts";
import { mergeSnapshots } from "../sources/merge-snapshots.ts";
import type { Source } from "../sources/source.ts";

/** Names in one log line. */
const MAX_NAMED = 20;

/** The sources that the configuration names, manifests first: what a file says beats the cluster. */
export async function createSources(
	config: Config,
	{ log, env }: { readonly log: Log; readonly env: Readonly<Record<string, string | undefined>> },
): Promise<readonly Source[]> {
	const { manifests, cluster, nodeName, serviceProxyName } = config;
	const sources: Source[] = [];
	if (manifests.length > 0) {
		sources.push(
			createManifestSource({
				paths: manifests,
				nodeName,
				log: log.child({ room: "sources", source: "manifests" }),
			}),
		);
	}
	if (cluster !== undefined) {
		// Loaded only when it is needed: the client costs memory that a host without a cluster keeps.
		const { createKubernetesSource } = await import("../sources/kubernetes/kubernetes-source.ts");
		sources.push(
			createKubernetesSource({
				cluster,
				nodeName,
				serviceProxyName,
				log: log.child({ room: "sources", source: "kubernetes" }),
				env,
			}),
		);
	}
	return sources;
}

/**
 * @returns what all sources know together; undefined until each has delivered a complete state. Says
 * once which objects more than one of them has.
 */
export function createSnapshotMerger(
	sources: readonly Source[],
	log: Log,
): () => Snapshot | undefined {
	let told: ReadonlySet<string> = new Set();
	return () => {
		if (!sources.every((source) => source.isSynced())) return undefined;
		const { snapshot, shadowed } = mergeSnapshots(sources.map((source) => source.snapshot()));
		const news = shadowed.filter((object) => !told.has(object));
		told = new Set(shadowed);
		if (news.length > 0) {
			const objects = news.slice(0, MAX_NAMED);
			log.warn(
				{ objects, count: news.length },
				"objects of a later source are hidden by an earlier one",
			);
		}
		return snapshot;
	};
}
