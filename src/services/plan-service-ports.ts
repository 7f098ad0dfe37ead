import { formatSocketAddress, type IpAddress, ipFamilyOf } from "./address.ts";
import { isEqualList, isEqualServicePort } from "./equal-service-ports.ts";
import { joinEndpoints } from "./join-endpoints.ts";
import {
	type EndpointSlice,
	objectKey,
	type Service,
	type ServicePortSpec,
	type Snapshot,
} from "./objects.ts";
import {
	type Protocol,
	type ServicePort,
	servicePortKey,
	servicePortName,
} from "./service-port.ts";

/*
 * services/ is the model: it turns what the sources know (Snapshot) into what this node should serve
 * (ServicePorts with their usable endpoints), and is pure: no I/O, no timer, no clock, no random. It
 * also holds the vocabulary of all rooms, and the judges of what comes from outside (admit-*.ts).
 */

export interface PlanOptions {
	/** Serve the Services with exactly this service-proxy-name; undefined: those without the label. */
	readonly serviceProxyName: string | undefined;
}

export interface ServicePortPlan {
	/** Sorted by key; each key once. */
	readonly servicePorts: readonly ServicePort[];
	/** What is asked for and not served, sorted by name. */
	readonly unserved: readonly UnservedPort[];
}

export interface UnservedPort {
	/** "shop/cart:http". */
	readonly name: string;
	readonly reason: /** We relay TCP and UDP only. */
		| "sctp"
		/** Another ServicePort has the same address, port and protocol: `detail` names it. */
		| "conflict"
		/** An endpoint that is itself a Service's address, which would loop: `detail` names it. */
		| "endpoint-is-virtual-address";
	readonly detail: string;
}

/** Keeps what it made before, so that what did not change is the very same object again. */
export interface ServicePortPlanner {
	plan(snapshot: Snapshot): ServicePortPlan;
}

/** What one Service came to, and what it was made from. */
interface Memo {
	readonly service: Service;
	readonly slices: readonly EndpointSlice[];
	readonly ports: readonly ServicePort[];
	readonly unserved: readonly UnservedPort[];
}

const NO_SLICES: readonly EndpointSlice[] = [];

export function createServicePortPlanner(options: PlanOptions): ServicePortPlanner {
	let memos: ReadonlyMap<string, Memo> = new Map();
	let plan: ServicePortPlan = { servicePorts: [], unserved: [] };
	return {
		plan(snapshot) {
			const slicesByService = groupByService(snapshot.endpointSlices);
			const next = new Map<string, Memo>();
			let isChanged = false;
			for (const [key, service] of snapshot.services) {
				if (!isServed(service, options)) continue;
				const slices = slicesByService.get(key) ?? NO_SLICES;
				const before = memos.get(key);
				const memo = memoOf(service, slices, before);
				isChanged ||= memo.ports !== before?.ports || memo.unserved !== before.unserved;
				next.set(key, memo);
			}
			if (isChanged || next.size !== memos.size)
				plan = keepEqual(plan, assemble([...next.values()]));
			memos = next;
			return plan;
		},
	};
}

/** One plan from nothing. */
export function planServicePorts(snapshot: Snapshot, options: PlanOptions): ServicePortPlan {
	return createServicePortPlanner(options).plan(snapshot);
}

function isServed(service: Service, { serviceProxyName }: PlanOptions): boolean {
	return service.kind === "addressed" && service.proxyName === serviceProxyName;
}

function groupByService(
	slices: ReadonlyMap<string, EndpointSlice>,
): ReadonlyMap<string, readonly EndpointSlice[]> {
	const groups = new Map<string, EndpointSlice[]>();
	for (const slice of slices.values()) {
		const key = objectKey({ namespace: slice.namespace, name: slice.serviceName });
		const group = groups.get(key);
		if (group === undefined) groups.set(key, [slice]);
		else group.push(slice);
	}
	// By name, so that the order in which they came does not show.
	for (const group of groups.values()) group.sort((a, b) => (a.name < b.name ? -1 : 1));
	return groups;
}

function isSame(
	memo: Memo | undefined,
	service: Service,
	slices: readonly EndpointSlice[],
): memo is Memo {
	return (
		memo !== undefined &&
		memo.service === service &&
		memo.slices.length === slices.length &&
		memo.slices.every((slice, index) => slice === slices[index])
	);
}

function memoOf(
	service: Service,
	slices: readonly EndpointSlice[],
	before: Memo | undefined,
): Memo {
	if (isSame(before, service, slices)) return before;
	const memo = planService(service, slices);
	return before === undefined ? memo : keepEqualParts(before, memo);
}

/** Most updates of an object change nothing that counts here: labels, annotations, its version. */
function keepEqualParts(before: Memo, memo: Memo): Memo {
	if (!hasEqualParts(before, memo)) return memo;
	return { ...memo, ports: before.ports, unserved: before.unserved };
}

function hasEqualParts(a: Memo, b: Memo): boolean {
	return (
		isEqualList(a.ports, b.ports, isEqualServicePort) &&
		isEqualList(
			a.unserved,
			b.unserved,
			(one, other) =>
				one.name === other.name && one.reason === other.reason && one.detail === other.detail,
		)
	);
}

function planService(service: Service, slices: readonly EndpointSlice[]): Memo {
	const ports: ServicePort[] = [];
	const unserved: UnservedPort[] = [];
	for (const spec of service.ports) {
		if (spec.protocol === "sctp") {
			const name = servicePortName(service.namespace, service.name, spec.name);
			unserved.push({ name, reason: "sctp", detail: `port ${spec.port}` });
			continue;
		}
		for (const address of service.clusterIps) {
			ports.push(planPort(service, { ...spec, protocol: spec.protocol }, address, slices));
		}
	}
	return { service, slices, ports, unserved };
}

function planPort(
	service: Service,
	spec: ServicePortSpec & { readonly protocol: Protocol },
	address: IpAddress,
	slices: readonly EndpointSlice[],
): ServicePort {
	const { namespace, name: serviceName, sessionAffinity } = service;
	const { name: portName, protocol, port } = spec;
	const family = ipFamilyOf(address);
	return {
		key: servicePortKey({ namespace, serviceName, portName, protocol, family }),
		name: servicePortName(namespace, serviceName, portName),
		namespace,
		serviceName,
		portName,
		protocol,
		family,
		port,
		virtualAddresses: [{ kind: "ClusterIP", address }],
		sessionAffinity,
		endpoints: joinEndpoints(slices, { portName, protocol, family }),
	};
}

/** The new plan, with the ServicePorts that are what they were as the objects that they were. */
function keepEqual(before: ServicePortPlan, after: ServicePortPlan): ServicePortPlan {
	const known = new Map(before.servicePorts.map((servicePort) => [servicePort.key, servicePort]));
	return {
		...after,
		servicePorts: after.servicePorts.map((servicePort) => {
			const old = known.get(servicePort.key);
			return old !== undefined && isEqualServicePort(old, servicePort) ? old : servicePort;
		}),
	};
}

/** Puts the Services together and settles what only shows between them. */
function assemble(memos: readonly Memo[]): ServicePortPlan {
	const unserved = memos.flatMap((memo) => memo.unserved);
	const sorted = memos.flatMap((memo) => memo.ports).sort((a, b) => (a.key < b.key ? -1 : 1));
	const owners = new Map<string, ServicePort>();
	const addresses = new Set<IpAddress>();
	const served = sorted.filter((servicePort) => {
		const rival = claim(servicePort, owners);
		if (rival === undefined) {
			for (const { address } of servicePort.virtualAddresses) addresses.add(address);
			return true;
		}
		unserved.push({ name: servicePort.name, reason: "conflict", detail: rival });
		return false;
	});
	const servicePorts = served.map((servicePort) => withoutLoops(servicePort, addresses, unserved));
	unserved.sort((a, b) => (a.name < b.name ? -1 : 1));
	return { servicePorts, unserved };
}

/** @returns undefined when the addresses are free and now its own, else who has which of them. */
function claim(servicePort: ServicePort, owners: Map<string, ServicePort>): string | undefined {
	const { protocol, port, virtualAddresses } = servicePort;
	for (const { address } of virtualAddresses) {
		const owner = owners.get(`${address} ${port} ${protocol}`);
		if (owner === undefined) continue;
		return `${formatSocketAddress(address, port)}/${protocol} belongs to ${owner.name}`;
	}
	for (const { address } of virtualAddresses) {
		owners.set(`${address} ${port} ${protocol}`, servicePort);
	}
	return undefined;
}

function withoutLoops(
	servicePort: ServicePort,
	addresses: ReadonlySet<IpAddress>,
	unserved: UnservedPort[],
): ServicePort {
	if (!servicePort.endpoints.some(({ address }) => addresses.has(address))) return servicePort;
	const loops = servicePort.endpoints.filter(({ address }) => addresses.has(address));
	for (const { key } of loops) {
		unserved.push({
			name: servicePort.name,
			reason: "endpoint-is-virtual-address",
			detail: `${key} is a Service's own address`,
		});
	}
	const endpoints = servicePort.endpoints.filter(({ address }) => !addresses.has(address));
	return { ...servicePort, endpoints };
}
