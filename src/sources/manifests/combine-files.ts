import {
	type EndpointSlice,
	type NodeInfo,
	objectKey,
	type Service,
	type ServiceCidr,
	type Snapshot,
} from "../../services/objects.ts";
import type { ManifestObject } from "./admit-object.ts";

export interface FileObjects {
	readonly path: string;
	readonly objects: readonly ManifestObject[];
}

export interface CombinedFiles {
	readonly snapshot: Snapshot;
	/** One per object that is left out because another with its name comes before it. */
	readonly duplicates: readonly Duplicate[];
}

export interface Duplicate {
	/** "Service shop/cart". */
	readonly object: string;
	/** "/etc/manifests/a.yaml, document 2": whose object counts. */
	readonly used: string;
	readonly leftOut: string;
}

/**
 * What all files together say; of objects with the same kind and name, the first counts.
 *
 * An Endpoints object counts only where no EndpointSlice belongs to its Service: a dump of a cluster
 * has both, for the same endpoints.
 *
 * @param files in the order that decides.
 */
export function combineFiles(files: Iterable<FileObjects>): CombinedFiles {
	const owners = new Map<string, { readonly object: ManifestObject; readonly place: string }>();
	const duplicates: Duplicate[] = [];
	for (const { path, objects } of files) {
		for (const object of objects) {
			const name = `${object.kind} ${object.key}`;
			const place = `${path}, document ${object.document}`;
			const owner = owners.get(name);
			if (owner === undefined) owners.set(name, { object, place });
			else duplicates.push({ object: name, used: owner.place, leftOut: place });
		}
	}
	return { snapshot: toSnapshot([...owners.values()].map(({ object }) => object)), duplicates };
}

function toSnapshot(objects: readonly ManifestObject[]): Snapshot {
	const services = new Map<string, Service>();
	const endpointSlices = new Map<string, EndpointSlice>();
	const serviceCidrs = new Map<string, ServiceCidr>();
	let node: NodeInfo | undefined;
	for (const object of objects) {
		if (object.kind === "Service") services.set(object.key, object.value);
		else if (object.kind === "EndpointSlice") endpointSlices.set(object.key, object.value);
		else if (object.kind === "ServiceCIDR") serviceCidrs.set(object.key, object.value);
		else if (object.kind === "Node") node = object.value;
	}
	for (const slice of standIns(objects, endpointSlices)) {
		endpointSlices.set(objectKey(slice), slice);
	}
	return { services, endpointSlices, serviceCidrs, node };
}

/** What Endpoints objects stand for, where their Services have no slices of their own. */
function standIns(
	objects: readonly ManifestObject[],
	slices: ReadonlyMap<string, EndpointSlice>,
): readonly EndpointSlice[] {
	const sliced = new Set(
		[...slices.values()].map(({ namespace, serviceName: name }) => objectKey({ namespace, name })),
	);
	return objects.flatMap((object) =>
		object.kind === "Endpoints" && !sliced.has(object.key) ? object.value : [],
	);
}
