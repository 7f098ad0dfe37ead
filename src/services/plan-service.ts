import { IP_FAMILIES, type IpFamily, ipFamilyOf } from "./address.ts";
import { familyOfRange } from "./ip-range.ts";
import type { EndpointSlice, Service, ServicePortSpec } from "./objects.ts";
import type { Port } from "./port.ts";
import {
	type Clients,
	type EndpointPool,
	type Protocol,
	type ServicePort,
	servicePortKey,
	servicePortName,
	type VirtualAddress,
} from "./service-port.ts";
import {
	localReadyAddresses,
	type NodePlace,
	type UsableEndpoints,
	usableEndpoints,
} from "./usable-endpoints.ts";

/** What one Service comes to on this node, before other Services are looked at. */
export interface ServicePlan {
	readonly ports: readonly ServicePort[];
	/** Names of ports that nobody can relay. */
	readonly sctp: readonly { readonly name: string; readonly port: Port }[];
	readonly healthCheck: HealthCheck | undefined;
}

/** A port at which a load balancer asks whether this node has endpoints of the Service. */
export interface HealthCheck {
	readonly namespace: string;
	readonly serviceName: string;
	readonly port: Port;
	/** Ready endpoints on this node, by address. */
	readonly localEndpoints: number;
}

type RelayedSpec = ServicePortSpec & { readonly protocol: Protocol };

/** Decides which ServicePorts a Service has, whom each serves, and with which endpoints. Pure. */
export function planService(
	service: Service,
	slices: readonly EndpointSlice[],
	place: NodePlace,
): ServicePlan {
	const families = IP_FAMILIES.filter((family) =>
		service.clusterIps.some((address) => ipFamilyOf(address) === family),
	);
	const relayed = service.ports.filter(isRelayed);
	return {
		ports: relayed.flatMap((spec) =>
			families.flatMap((family) => planPort(service, spec, family, slices, place)),
		),
		sctp: service.ports
			.filter(({ protocol }) => protocol === "sctp")
			.map(({ name, port }) => ({
				name: servicePortName(service.namespace, service.name, name),
				port,
			})),
		healthCheck: planHealthCheck(service, relayed, families, slices, place),
	};
}

function isRelayed(spec: ServicePortSpec): spec is RelayedSpec {
	return spec.protocol !== "sctp";
}

/** One ServicePort, or one per pool where the Service's two policies part its traffic. */
function planPort(
	service: Service,
	spec: RelayedSpec,
	family: IpFamily,
	slices: readonly EndpointSlice[],
	place: NodePlace,
): readonly ServicePort[] {
	const selector = { portName: spec.name, protocol: spec.protocol, family };
	const endpoints = usableEndpoints(slices, selector, place);
	return (["cluster", "local"] as const)
		.map((pool) => toServicePort(service, spec, { family, pool }, endpoints))
		.filter(
			({ virtualAddresses, nodePort }) => virtualAddresses.length > 0 || nodePort !== undefined,
		);
}

function toServicePort(
	service: Service,
	spec: RelayedSpec,
	{ family, pool }: { readonly family: IpFamily; readonly pool: EndpointPool },
	endpoints: UsableEndpoints,
): ServicePort {
	const { namespace, name: serviceName } = service;
	const { name: portName, protocol, port } = spec;
	const external = externalClients(service, pool);
	return {
		key: servicePortKey({ namespace, serviceName, portName, protocol, family, pool }),
		name: servicePortName(namespace, serviceName, portName),
		namespace,
		serviceName,
		portName,
		protocol,
		family,
		pool,
		port,
		virtualAddresses: virtualAddresses(service, family, pool, external),
		nodePort:
			spec.nodePort === undefined || external === undefined
				? undefined
				: { port: spec.nodePort, clients: external },
		sessionAffinity: service.sessionAffinity,
		endpoints: endpoints[pool],
		whenEmpty: pool === "local" && endpoints.hasAny ? "drop" : "reject",
	};
}

/**
 * Whose traffic to the Service's external addresses goes to a pool; undefined: nobody's. With policy
 * Local that of this node and its Pods need not come in from outside, and may go anywhere.
 */
function externalClients(
	{ externalTrafficPolicy }: Service,
	pool: EndpointPool,
): Clients | undefined {
	if (externalTrafficPolicy === "Cluster") return pool === "cluster" ? "all" : undefined;
	return pool === "cluster" ? "inside" : "outside";
}

function virtualAddresses(
	service: Service,
	family: IpFamily,
	pool: EndpointPool,
	external: Clients | undefined,
): readonly VirtualAddress[] {
	const isInternalPool = (service.internalTrafficPolicy === "Local") === (pool === "local");
	const isOfFamily = (address: VirtualAddress["address"]) => ipFamilyOf(address) === family;
	const clusterIps = service.clusterIps.filter(isOfFamily);
	const internal = isInternalPool ? clusterIps : [];
	if (external === undefined) return internal.map((address) => toAddress("ClusterIP", address));
	// An address that is there in two ways counts once, in the way that restricts most.
	const balancerIps = service.loadBalancerIps
		.filter(isOfFamily)
		.filter((address) => !clusterIps.includes(address));
	const externalIps = service.externalIps
		.filter(isOfFamily)
		.filter((address) => !clusterIps.includes(address) && !balancerIps.includes(address));
	const sourceRanges = service.sourceRanges.filter((range) => familyOfRange(range) === family);
	return [
		...internal.map((address) => toAddress("ClusterIP", address)),
		...externalIps.map((address) => toAddress("ExternalIP", address, external)),
		...balancerIps.map((address) => ({
			...toAddress("LoadBalancerIP", address, external),
			sourceRanges,
		})),
	];
}

function toAddress(
	kind: VirtualAddress["kind"],
	address: VirtualAddress["address"],
	clients: Clients = "all",
): VirtualAddress {
	return { kind, address, clients, sourceRanges: [] };
}

/** An endpoint with an address of each family counts once, as each family's own proxy would have it. */
function planHealthCheck(
	{ namespace, name: serviceName, healthCheckNodePort }: Service,
	specs: readonly RelayedSpec[],
	families: readonly IpFamily[],
	slices: readonly EndpointSlice[],
	place: NodePlace,
): HealthCheck | undefined {
	if (healthCheckNodePort === undefined) return undefined;
	const counts = families.map((family) => {
		const addresses = specs.flatMap(({ name: portName, protocol }) => [
			...localReadyAddresses(slices, { portName, protocol, family }, place),
		]);
		return new Set(addresses).size;
	});
	return {
		namespace,
		serviceName,
		port: healthCheckNodePort,
		localEndpoints: Math.max(0, ...counts),
	};
}
