import type { Admission } from "../../services/admission.ts";
import { admitEndpointSlice } from "../../services/admit-endpoint-slice.ts";
import { admitEndpoints } from "../../services/admit-endpoints.ts";
import { admitNode } from "../../services/admit-node.ts";
import { admitService } from "../../services/admit-service.ts";
import {
	type EndpointSlice,
	type NodeInfo,
	objectKey,
	type Service,
	type ServiceCidr,
	type Snapshot,
} from "../../services/objects.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import type { Source, SourceStatus } from "../source.ts";
import { ApiClient } from "./api-client.ts";
import { ClusterAddress } from "./cluster-address.ts";
import { type ConnectionTiming, DEFAULT_TIMING } from "./connections.ts";
import { type ClusterOptions, Credentials, inClusterServer } from "./credentials.ts";
import type { ExecPluginLimits } from "./exec-plugin.ts";
import { DEFAULT_LIMITS, type ReflectorLimits } from "./limits.ts";
import { NodePresence } from "./node-presence.ts";
import { ObjectStore, one } from "./object-store.ts";
import { Problems } from "./problems.ts";
import { Reflector } from "./reflector.ts";
import { nodeResource, servicesResource } from "./resources.ts";
import { SERVICE_CIDR_READING, ServiceCidrChoice } from "./service-cidr-choice.ts";
import { SliceChoice } from "./slice-choice.ts";
import { StreamingLists } from "./streaming-lists.ts";

/**
 * The cluster as a source: Services, EndpointSlices (or what an old cluster has instead), ServiceCIDRs
 * and this node's Node, listed and watched, each by a reflector of its own over shared connections.
 *
 * Turns the API's answers into admitted objects; owns the connections, the credentials and the last
 * known state. Whatever goes wrong, it goes on with the last state and tries again; it never throws
 * at the daemon, never ends before the abort, and never logs a secret.
 */

/** How raw objects become ours; each answers and never throws. */
interface AdmitTable {
	readonly service: (raw: unknown) => Admission<Service>;
	readonly endpointSlice: (raw: unknown) => Admission<EndpointSlice>;
	readonly endpoints: (raw: unknown) => Admission<readonly EndpointSlice[]>;
	readonly node: (raw: unknown) => Admission<NodeInfo>;
}

const ADMIT: AdmitTable = {
	service: admitService,
	endpointSlice: admitEndpointSlice,
	endpoints: admitEndpoints,
	node: admitNode,
};

export interface KubernetesSourceOptions {
	readonly cluster: ClusterOptions;
	readonly nodeName: string;
	/** Serve only Services with this proxy name; undefined: those without one. */
	readonly serviceProxyName: string | undefined;
	readonly log: Log;
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly admit?: AdmitTable;
	readonly clock?: Clock;
	/** Uniform in [0, 1). */
	readonly random?: () => number;
	readonly limits?: Partial<ReflectorLimits>;
	readonly timing?: Partial<ConnectionTiming>;
	/** How long the first complete state waits for this node's Node and the ServiceCIDRs, in milliseconds. */
	readonly patienceMs?: number;
	/** Where a pod's service account is mounted. */
	readonly serviceAccountFolder?: string;
	readonly pluginLimits?: Partial<ExecPluginLimits>;
}

export function createKubernetesSource(options: KubernetesSourceOptions): Source {
	return new KubernetesSource(options);
}

class KubernetesSource implements Source {
	readonly name: string;
	readonly #options: KubernetesSourceOptions;
	readonly #problems: Problems;
	readonly #client: ApiClient;
	readonly #address: ClusterAddress;
	readonly #services: ObjectStore<Service>;
	readonly #slices: ObjectStore<EndpointSlice>;
	readonly #serviceCidrs: ObjectStore<ServiceCidr>;
	readonly #nodes: ObjectStore<NodeInfo>;
	readonly #presence: NodePresence;
	#reflectors: Reflectors | undefined;
	#snapshot: Snapshot | undefined;
	#changed: () => void = () => {};
	#closed: Promise<void> = Promise.resolve();
	#failing = false;
	#isPatient = true;

	constructor(options: KubernetesSourceOptions) {
		const { admit = ADMIT, cluster, env, log, clock = systemClock } = options;
		this.#options = options;
		this.name = nameOf(options);
		this.#problems = new Problems(log);
		this.#address = new ClusterAddress(env, log);
		const { serviceAccountFolder, pluginLimits } = options;
		const timing = { ...DEFAULT_TIMING, ...options.timing };
		const credentials = new Credentials({
			cluster,
			env,
			clock,
			log,
			serviceAccountFolder,
			pluginLimits,
		});
		this.#client = new ApiClient({ credentials, address: this.#address, log, timing });
		this.#services = new ObjectStore({ kind: "Service", admit: one(admit.service) }, log);
		this.#slices = new ObjectStore({ kind: "EndpointSlice", admit: one(admit.endpointSlice) }, log);
		this.#serviceCidrs = new ObjectStore(SERVICE_CIDR_READING, log);
		this.#nodes = new ObjectStore({ kind: "Node", admit: one(admit.node) }, log);
		this.#presence = new NodePresence(options.nodeName, log);
	}

	start(onChange: () => void, signal: AbortSignal): void {
		this.#changed = onChange;
		const reflectors = this.#makeReflectors(signal);
		this.#reflectors = reflectors;
		this.#closed = this.#run(Object.values(reflectors), signal);
		const patience = setTimeout(() => {
			this.#isPatient = false;
			this.#onChange(signal);
		}, this.#options.patienceMs ?? 5_000);
		signal.addEventListener("abort", () => clearTimeout(patience), { once: true });
	}

	isSynced(): boolean {
		const reflectors = this.#reflectors;
		if (reflectors === undefined) return false;
		const { services, slices, serviceCidrs, node } = reflectors;
		// What these two tell is welcome and not needed; but a moment's patience saves a second plan.
		const isRestSettled = (node.hasTried && serviceCidrs.hasTried) || !this.#isPatient;
		return services.isSynced && slices.isSynced && isRestSettled;
	}

	snapshot(): Snapshot {
		this.#snapshot ??= {
			services: byKey(this.#services.objects()),
			endpointSlices: byKey(this.#slices.objects()),
			serviceCidrs: new Map([...this.#serviceCidrs.objects()].map((each) => [each.name, each])),
			node: this.#node(),
		};
		return this.#snapshot;
	}

	status(): SourceStatus {
		return {
			name: this.name,
			synced: this.isSynced(),
			freshAtMs: this.#freshAtMs(),
			problem: this.#problems.describe(),
			rejected: [
				...this.#services.rejected(),
				...this.#slices.rejected(),
				...this.#serviceCidrs.rejected(),
				...this.#nodes.rejected(),
			].slice(0, 100),
		};
	}

	closed(): Promise<void> {
		return this.#closed;
	}

	/** The state is as fresh as the staler of the two that matter. */
	#freshAtMs(): number | undefined {
		const { services, slices } = this.#reflectors ?? {};
		if (services?.freshAtMs === undefined || slices?.freshAtMs === undefined) return undefined;
		return Math.min(services.freshAtMs, slices.freshAtMs);
	}

	async #run(reflectors: readonly Reflector<unknown>[], signal: AbortSignal): Promise<void> {
		await Promise.all(reflectors.map((reflector) => reflector.run(signal)));
		await this.#client.close();
	}

	#makeReflectors(signal: AbortSignal): Reflectors {
		const {
			admit = ADMIT,
			clock = systemClock,
			random = Math.random,
			nodeName,
			log,
		} = this.#options;
		const limits = { ...DEFAULT_LIMITS, ...this.#options.limits };
		const transport = this.#client;
		const onChange = () => this.#onChange(signal);
		const streaming = new StreamingLists({ clock, log, retryMs: limits.streamRetryMs });
		const common = { transport, streaming, limits, clock, random, log, onChange };
		const cidrs = new ServiceCidrChoice(log);
		const slices = new SliceChoice({ transport, admit, timeoutMs: limits.watchHeadersMs, log });
		return {
			services: new Reflector<Service>({
				...common,
				store: this.#services,
				problems: this.#problems.slot("services"),
				choose: () => ({
					resource: servicesResource(this.#options.serviceProxyName),
					reading: { kind: "Service", admit: one(admit.service) },
				}),
			}),
			slices: new Reflector<EndpointSlice>({
				...common,
				store: this.#slices,
				problems: this.#problems.slot("slices"),
				choose: (refused, abort) => slices.choose(refused, abort),
			}),
			serviceCidrs: new Reflector<ServiceCidr>({
				...common,
				limits: cidrs.limits(limits),
				store: this.#serviceCidrs,
				problems: cidrs.slot(),
				choose: (refused) => cidrs.choose(refused),
			}),
			node: new Reflector<NodeInfo>({
				...common,
				// Nobody waits for a change of the Node: not worth the short watches of a quiet collection.
				limits: { ...limits, watchIdleMs: limits.nodeWatchIdleMs },
				store: this.#nodes,
				problems: this.#presence.slot(),
				choose: () => ({
					resource: nodeResource(nodeName),
					reading: { kind: "Node", admit: one(admit.node) },
				}),
			}),
		};
	}

	#node(): NodeInfo | undefined {
		return [...this.#nodes.objects()].find(({ name }) => name === this.#options.nodeName);
	}

	#onChange(signal: AbortSignal): void {
		if (signal.aborted) return;
		this.#snapshot = undefined;
		try {
			this.#address.learn(this.#services.objects());
			if (this.#reflectors?.node.isSynced === true) {
				// Not by way of a snapshot: that is put together once for many changes.
				this.#presence.see(this.#node() !== undefined);
			}
			this.#changed();
			this.#failing = false;
		} catch (error) {
			// A bug of whoever listens: it must be seen, and must not end list and watch.
			if (!this.#failing) {
				this.#options.log.error({ reason: describeError(error) }, "change handler failing");
			}
			this.#failing = true;
		}
	}
}

interface Reflectors {
	readonly services: Reflector<Service>;
	readonly slices: Reflector<EndpointSlice>;
	readonly serviceCidrs: Reflector<ServiceCidr>;
	readonly node: Reflector<NodeInfo>;
}

/** What can be said of the server before anything was read; stays the same, as metrics are named by it. */
function nameOf({ cluster, env }: KubernetesSourceOptions): string {
	const given = cluster.master ?? cluster.kubeconfig;
	return `kubernetes ${given === undefined ? inClusterName(env) : withoutUser(given)}`;
}

function inClusterName(env: KubernetesSourceOptions["env"]): string {
	try {
		return inClusterServer(env);
	} catch {
		return "in-cluster";
	}
}

/** A URL may hold a password. */
function withoutUser(text: string): string {
	if (!URL.canParse(text)) return text;
	const url = new URL(text);
	url.username = "";
	url.password = "";
	return url.href.replace(/\/$/, "");
}

function byKey<T extends { readonly namespace: string; readonly name: string }>(
	objects: Iterable<T>,
): ReadonlyMap<string, T> {
	const map = new Map<string, T>();
	for (const object of objects) map.set(objectKey(object), object);
	return map;
}
