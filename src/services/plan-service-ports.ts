import { type Owners, settleAddresses } from "./address-claims.ts";
import {
	type ClusterIps,
	keepClusterIps,
	NO_CLUSTER_IPS,
	ownedClusterIps,
	serviceRanges,
} from "./cluster-ips.ts";
import { withoutLoops } from "./endpoint-loops.ts";
import { isEqualList, isEqualServicePort } from "./equal-service-ports.ts";
import type { NodeView } from "./node-view.ts";
import { type EndpointSlice, objectKey, type Service, type Snapshot } from "./objects.ts";
import { type HealthCheck, planService, type ServicePlan } from "./plan-service.ts";
import type { ServicePort } from "./service-port.ts";
import type { UnservedPort } from "./unserved-port.ts";
import type { NodePlace } from "./usable-endpoints.ts";

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
	/** Sorted by port; of Services that claim the same the older first. */
	readonly healthChecks: readonly HealthCheck[];
	readonly clusterIps: ClusterIps;
}

/** Keeps what it made before, so that what did not change is the very same object again. */
export interface ServicePortPlanner {
	plan(snapshot: Snapshot, view: NodeView): ServicePortPlan;
}

/** What one Service came to, and what it was made from. */
interface Memo {
	readonly service: Service;
	readonly slices: readonly EndpointSlice[];
	readonly plan: ServicePlan;
}

const NO_SLICES: readonly EndpointSlice[] = [];

const NO_PLAN: ServicePortPlan = {
	servicePorts: [],
	unserved: [],
	healthChecks: [],
	clusterIps: NO_CLUSTER_IPS,
};

export function createServicePortPlanner(options: PlanOptions): ServicePortPlanner {
	return new MemoPlanner(options);
}

/** One plan from nothing. */
export function planServicePorts(
	snapshot: Snapshot,
	view: NodeView,
	options: PlanOptions,
): ServicePortPlan {
	return createServicePortPlanner(options).plan(snapshot, view);
}

class MemoPlanner implements ServicePortPlanner {
	readonly #options: PlanOptions;
	#memos: ReadonlyMap<string, Memo> = new Map();
	#place: NodePlace | undefined;
	#view: NodeView | undefined;
	#owners: Owners = new Map();
	#plan: ServicePortPlan = NO_PLAN;

	constructor(options: PlanOptions) {
		this.#options = options;
	}

	plan(snapshot: Snapshot, view: NodeView): ServicePortPlan {
		const place = { nodeName: view.nodeName, zone: snapshot.node?.zone };
		const isSamePlace = place.nodeName === this.#place?.nodeName && place.zone === this.#place.zone;
		const before: ReadonlyMap<string, Memo> = this.#memos;
		const slicesByService = groupByService(snapshot.endpointSlices);
		const next = new Map<string, Memo>();
		let isChanged = view !== this.#view;
		for (const [key, service] of snapshot.services) {
			if (!isServed(service, this.#options)) continue;
			const slices = slicesByService.get(key) ?? NO_SLICES;
			const known = before.get(key);
			const memo =
				isSamePlace && isSame(known, service, slices)
					? known
					: memoOf(service, slices, place, known);
			isChanged ||=
				memo.plan !== known?.plan || memo.service.createdAtMs !== known.service.createdAtMs;
			next.set(key, memo);
		}
		this.#memos = next;
		this.#place = place;
		this.#view = view;
		if (isChanged || next.size !== before.size) this.#assemble([...next.values()], view);
		const clusterIps = this.#clusterIps(snapshot, before);
		if (clusterIps !== this.#plan.clusterIps) this.#plan = { ...this.#plan, clusterIps };
		return this.#plan;
	}

	#clusterIps({ serviceCidrs }: Snapshot, memosBefore: ReadonlyMap<string, Memo>): ClusterIps {
		const before = this.#plan.clusterIps;
		return keepClusterIps(before, {
			owned: haveSameClusterIps(memosBefore, this.#memos)
				? before.owned
				: ownedClusterIps([...this.#memos.values()].map(({ service }) => service)),
			// Beside another proxy an address that we do not know may be one of its Services.
			ranges:
				this.#options.serviceProxyName === undefined ? serviceRanges(serviceCidrs.values()) : [],
		});
	}

	/** Puts the Services together and settles what only shows between them. */
	#assemble(memos: readonly Memo[], view: NodeView): void {
		const claimants = memos.flatMap(({ service: { createdAtMs }, plan }) =>
			plan.ports.map((servicePort) => ({ servicePort, createdAtMs })),
		);
		const { served, unserved, owners } = settleAddresses(claimants, view, this.#owners);
		this.#owners = owners;
		const loopFree = withoutLoops(served, view);
		const notes = [...memos.flatMap(({ plan }) => sctpOf(plan)), ...unserved, ...loopFree.unserved];
		this.#plan = keepEqual(this.#plan, {
			servicePorts: loopFree.servicePorts.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
			unserved: notes.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
			healthChecks: healthChecksOf(memos),
			clusterIps: this.#plan.clusterIps,
		});
	}
}

function haveSameClusterIps(
	before: ReadonlyMap<string, Memo>,
	after: ReadonlyMap<string, Memo>,
): boolean {
	if (before.size !== after.size) return false;
	for (const [key, { service }] of after) {
		const ips = before.get(key)?.service.clusterIps;
		if (ips === undefined) return false;
		if (!isEqualList(ips, service.clusterIps, (one, other) => one === other)) return false;
	}
	return true;
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

/** Most updates of an object change nothing that counts here: labels, annotations, its version. */
function memoOf(
	service: Service,
	slices: readonly EndpointSlice[],
	place: NodePlace,
	before: Memo | undefined,
): Memo {
	const plan = planService(service, slices, place);
	const isEqual = before !== undefined && isEqualPlan(before.plan, plan);
	return { service, slices, plan: isEqual ? before.plan : plan };
}

function isEqualPlan(a: ServicePlan, b: ServicePlan): boolean {
	return (
		isEqualList(a.ports, b.ports, isEqualServicePort) &&
		isEqualList(
			a.sctp,
			b.sctp,
			(one, other) => one.name === other.name && one.port === other.port,
		) &&
		a.healthCheck?.port === b.healthCheck?.port &&
		a.healthCheck?.localEndpoints === b.healthCheck?.localEndpoints
	);
}

function sctpOf({ sctp }: ServicePlan): readonly UnservedPort[] {
	return sctp.map(({ name, port }) => ({ name, reason: "sctp", detail: `port ${port}` }));
}

function healthChecksOf(memos: readonly Memo[]): readonly HealthCheck[] {
	return memos
		.toSorted((a, b) => (a.service.createdAtMs ?? Infinity) - (b.service.createdAtMs ?? Infinity))
		.flatMap(({ plan: { healthCheck } }) => (healthCheck === undefined ? [] : [healthCheck]))
		.toSorted((a, b) => a.port - b.port);
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
