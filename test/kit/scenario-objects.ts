import { rawService, rawSlice } from "./raw-objects.ts";
import type { ScenarioObject } from "./scenario-schema.ts";

/** The node that scenarios are about. */
export const SCENARIO_NODE = "node1";

type Family = "IPv4" | "IPv6";
type SliceObject = Extract<ScenarioObject, { kind: "EndpointSlice" }>;
type ServiceObject = Extract<ScenarioObject, { kind: "Service" }>;
type NodeObject = Extract<ScenarioObject, { kind: "Node" }>;

/** The Kubernetes objects that one of a scenario's stands for: a slice for each of its families. */
export function rawObjects(namespace: string, label: string, object: ScenarioObject): unknown[] {
	switch (object.kind) {
		case "Service":
			return [toRawService(namespace, object.name ?? label, object)];
		case "EndpointSlice":
			return object.families.map((family) =>
				toRawSlice(namespace, object.name ?? label, object, family),
			);
		case "ServiceCIDR":
			return [toRawServiceCidr(label, object.cidrs)];
		case "Node":
			return [toRawNode(object)];
	}
}

function toRawService(namespace: string, name: string, object: ServiceObject): unknown {
	const { createdAt, labels, ingress } = object;
	const { ports, clusterIPs, ...spec } = object.spec;
	const isNamed = spec.type === "ExternalName";
	const raw = rawService({
		namespace,
		name,
		ports,
		spec: {
			...spec,
			...(isNamed || clusterIPs === undefined
				? { clusterIP: undefined, clusterIPs: undefined }
				: { clusterIP: clusterIPs[0], clusterIPs }),
		},
		...(createdAt === undefined ? {} : { createdAt }),
		...(labels === undefined ? {} : { labels }),
	});
	return ingress === undefined ? raw : { ...raw, status: { loadBalancer: { ingress } } };
}

function toRawSlice(namespace: string, name: string, object: SliceObject, family: Family): unknown {
	return rawSlice({
		namespace,
		name: `${name}-${family.toLowerCase()}`,
		serviceName: object.of,
		addressType: family,
		ports: object.ports,
		endpoints: object.endpoints.map(({ at, node, forZones, forNodes, ...conditions }) => ({
			addresses: [addressOf(at, family)],
			...(Object.keys(conditions).length === 0 ? {} : { conditions }),
			...(node === undefined ? {} : { nodeName: node }),
			...(forZones === undefined && forNodes === undefined
				? {}
				: { hints: { forZones: namesOf(forZones), forNodes: namesOf(forNodes) } }),
		})),
	});
}

function namesOf(names: readonly string[] = []): unknown[] {
	return names.map((name) => ({ name }));
}

function toRawServiceCidr(name: string, cidrs: readonly string[]): unknown {
	return {
		apiVersion: "networking.k8s.io/v1",
		kind: "ServiceCIDR",
		metadata: { name },
		spec: { cidrs },
	};
}

function toRawNode({ zone, podCIDRs }: NodeObject): unknown {
	return {
		apiVersion: "v1",
		kind: "Node",
		metadata: {
			name: SCENARIO_NODE,
			labels: zone === undefined ? {} : { "topology.kubernetes.io/zone": zone },
		},
		spec: podCIDRs === undefined ? {} : { podCIDRs },
	};
}

/** Of the lab's address plan: "ep1" is 10.2.1.2 and fd10:2:1::2. */
function addressOf(at: string, family: Family): string {
	const number = /^ep(\d)$/.exec(at)?.[1];
	if (number === undefined) return at;
	return family === "IPv4" ? `10.2.${number}.2` : `fd10:2:${number}::2`;
}

/** "ep1" for its address in either family; an address that is no endpoint of the lab as it is. */
export function endpointNameOf(address: string): string {
	const number = /^(?:10\.2\.(\d)\.2|fd10:2:(\d)::2)$/.exec(address);
	return number === null ? address : `ep${number[1] ?? number[2]}`;
}

export interface Target {
	readonly address: string;
	readonly port: number;
	readonly protocol: "tcp" | "udp";
}

/** "10.96.0.10:80/tcp+udp" is two. */
export function targetsOf(text: string): readonly Target[] {
	const [, address = "", port, protocols = ""] = /^(.+):(\d+)\/(.+)$/.exec(text) ?? [];
	return protocols.split("+").map((protocol) => ({
		address: address.replace(/^\[|\]$/g, ""),
		port: Number(port),
		protocol: protocol === "udp" ? "udp" : "tcp",
	}));
}
