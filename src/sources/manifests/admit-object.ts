import type { Admission } from "../../services/admission.ts";
import { admitEndpointSlice } from "../../services/admit-endpoint-slice.ts";
import { admitEndpoints } from "../../services/admit-endpoints.ts";
import { admitNode } from "../../services/admit-node.ts";
import { admitService } from "../../services/admit-service.ts";
import { admitServiceCidr } from "../../services/admit-service-cidr.ts";
import { isRawObject, type RawObject } from "../../services/field-problems.ts";
import {
	type EndpointSlice,
	type NodeInfo,
	objectKey,
	type Service,
	type ServiceCidr,
} from "../../services/objects.ts";

/** An object out of a manifest, in our own types. */
export type ManifestObject = {
	/** 1-based number of the document in its file. */
	readonly document: number;
	/** "shop/cart"; the bare name where a kind has no namespaces. */
	readonly key: string;
} & AdmittedObject;

type AdmittedObject =
	| { readonly kind: "Service"; readonly value: Service }
	| { readonly kind: "EndpointSlice"; readonly value: EndpointSlice }
	/** As the slices that it stands for. */
	| { readonly kind: "Endpoints"; readonly value: readonly EndpointSlice[] }
	| { readonly kind: "ServiceCIDR"; readonly value: ServiceCidr }
	| { readonly kind: "Node"; readonly value: NodeInfo };

export type ManifestKind = AdmittedObject["kind"];

const API_VERSIONS: ReadonlyMap<string, readonly string[]> = new Map([
	["Service", ["v1"]],
	["EndpointSlice", ["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"]],
	["Endpoints", ["v1"]],
	["ServiceCIDR", ["networking.k8s.io/v1", "networking.k8s.io/v1beta1"]],
	["Node", ["v1"]],
]);

/** The kinds that belong to the whole cluster. */
const WITHOUT_NAMESPACE: ReadonlySet<ManifestKind> = new Set(["ServiceCIDR", "Node"]);

/** False also for a kind of the same name from another group (a Knative Service). */
export function isManifestKind(kind: string, apiVersion: string): kind is ManifestKind {
	return API_VERSIONS.get(kind)?.includes(apiVersion) === true;
}

/** "shop/cart" as far as the object tells; "" where it has no name. */
export function keyOf(kind: ManifestKind, raw: RawObject): string {
	const metadata = isRawObject(raw["metadata"]) ? raw["metadata"] : {};
	const { name, namespace } = metadata;
	if (typeof name !== "string") return "";
	if (WITHOUT_NAMESPACE.has(kind)) return name;
	return objectKey({ namespace: typeof namespace === "string" ? namespace : "", name });
}

/** What `kubectl apply` does to an object that names no namespace. */
export function inDefaultNamespace(raw: RawObject): RawObject {
	const { metadata } = raw;
	if (!isRawObject(metadata) || (metadata["namespace"] ?? "") !== "") return raw;
	return { ...raw, metadata: { ...metadata, namespace: "default" } };
}

/** Judges an object of a kind that we know. Never throws. */
export function admitObject(kind: ManifestKind, raw: RawObject): Admission<AdmittedObject> {
	switch (kind) {
		case "Service":
			return tagged(admitService(raw), (value) => ({ kind, value }));
		case "EndpointSlice":
			return tagged(admitEndpointSlice(raw), (value) => ({ kind, value }));
		case "Endpoints":
			return tagged(admitEndpoints(raw), (value) => ({ kind, value: value.map(asStandIn) }));
		case "ServiceCIDR":
			return tagged(admitServiceCidr(raw), (value) => ({ kind, value }));
		case "Node":
			return tagged(admitNode(raw), (value) => ({ kind, value }));
	}
}

/** No EndpointSlice may have a name with a colon, so that it takes nobody's place. */
function asStandIn(slice: EndpointSlice): EndpointSlice {
	return { ...slice, name: `endpoints:${slice.name}` };
}

function tagged<T>(
	admission: Admission<T>,
	tag: (value: T) => AdmittedObject,
): Admission<AdmittedObject> {
	return admission.admitted ? { admitted: true, object: tag(admission.object) } : admission;
}
