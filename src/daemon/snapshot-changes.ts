import type { Snapshot } from "../services/objects.ts";

/** How many Services and EndpointSlices came, went or are other objects than before. */
export function countChanges(
	before: Snapshot | undefined,
	after: Snapshot,
): { readonly services: number; readonly endpoints: number } {
	return {
		services: countDifferent(before?.services, after.services),
		endpoints: countDifferent(before?.endpointSlices, after.endpointSlices),
	};
}

function countDifferent<T>(
	before: ReadonlyMap<string, T> = new Map(),
	after: ReadonlyMap<string, T>,
): number {
	let different = 0;
	let kept = 0;
	for (const [key, object] of after) {
		const old = before.get(key);
		if (old !== undefined) kept += 1;
		if (old !== object) different += 1;
	}
	return different + (before.size - kept);
}
