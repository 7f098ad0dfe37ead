import type { Snapshot } from "../services/objects.ts";

export interface MergedSnapshot {
	readonly snapshot: Snapshot;
	/** "Service shop/cart": objects that a later source has too; the earlier one's counts. */
	readonly shadowed: readonly string[];
}

/**
 * Puts what several sources know into one snapshot.
 *
 * An object that two sources have is taken from the first; Endpoints of a Service may come from
 * several, as EndpointSlices do within one cluster.
 */
export function mergeSnapshots(snapshots: readonly Snapshot[]): MergedSnapshot {
	const [only] = snapshots;
	if (only !== undefined && snapshots.length === 1) return { snapshot: only, shadowed: [] };
	const shadowed: string[] = [];
	return {
		snapshot: {
			services: mergeMaps(snapshots, "Service", (snapshot) => snapshot.services, shadowed),
			endpointSlices: mergeMaps(
				snapshots,
				"EndpointSlice",
				(snapshot) => snapshot.endpointSlices,
				shadowed,
			),
			serviceCidrs: mergeMaps(
				snapshots,
				"ServiceCIDR",
				(snapshot) => snapshot.serviceCidrs,
				shadowed,
			),
			node: snapshots.find((snapshot) => snapshot.node !== undefined)?.node,
		},
		shadowed,
	};
}

function mergeMaps<T>(
	snapshots: readonly Snapshot[],
	kind: string,
	mapOf: (snapshot: Snapshot) => ReadonlyMap<string, T>,
	shadowed: string[],
): ReadonlyMap<string, T> {
	const merged = new Map<string, T>();
	for (const snapshot of snapshots) {
		for (const [key, object] of mapOf(snapshot)) {
			if (merged.has(key)) shadowed.push(`${kind} ${key}`);
			else merged.set(key, object);
		}
	}
	return merged;
}
