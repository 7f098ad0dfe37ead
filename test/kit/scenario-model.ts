import { assumeBindings } from "../../src/cli/plan.ts";
import type { Config } from "../../src/config/config.ts";
import { describeConfigProblem } from "../../src/config/problem.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { NodeWatch } from "../../src/daemon/node-watch.ts";
import { planRules } from "../../src/rules/plan.ts";
import { restoreText } from "../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../src/rules/saved-rules.ts";
import type { IpFamily } from "../../src/services/address.ts";
import type {
	EndpointSlice,
	NodeInfo,
	Service,
	ServiceCidr,
	Snapshot,
} from "../../src/services/objects.ts";
import { objectKey } from "../../src/services/objects.ts";
import {
	createServicePortPlanner,
	type ServicePortPlan,
	type ServicePortPlanner,
} from "../../src/services/plan-service-ports.ts";
import type { Binding } from "../../src/services/service-port.ts";
import { silentLog } from "../../src/shared/log.ts";
import { admitObject, isManifestKind } from "../../src/sources/manifests/admit-object.ts";
import { planLab } from "./lab-plan.ts";
import { SCENARIO_NODE } from "./scenario-objects.ts";
import { admitted } from "./snapshots.ts";

/** Of every scenario's daemon: the endpoints' network is the Pods'. */
export const SCENARIO_FLAGS: Readonly<Record<string, readonly string[]>> = {
	"hostname-override": [SCENARIO_NODE],
	"cluster-cidr": ["10.2.0.0/16,fd10:2::/32"],
};

const LAB = planLab("", 3);

/** What the node's interfaces would say, in the lab. */
const INTERFACES = {
	lo: [
		{ address: "127.0.0.1", internal: true, cidr: "127.0.0.1/8" },
		{ address: "::1", internal: true, cidr: "::1/128" },
	],
	...Object.fromEntries(
		LAB.peers.map(({ nodeInterface, addresses: { nodeIpv4, nodeIpv6 } }) => [
			nodeInterface,
			[
				{ address: nodeIpv4, internal: false, cidr: `${nodeIpv4}/24` },
				{ address: nodeIpv6, internal: false, cidr: `${nodeIpv6}/64` },
			],
		]),
	),
};

type ManifestValue = Extract<ReturnType<typeof admitObject>, { admitted: true }>["object"];

/** All that a daemon would have decided by its objects. */
export interface ModelOutcome {
	readonly plan: ServicePortPlan;
	readonly bindings: readonly Binding[];
	/** Input of iptables-restore. */
	readonly rules: Readonly<Record<IpFamily, string>>;
}

/** A daemon in the lab without sockets, kernel and time: objects in, decisions out. */
export class ScenarioModel {
	readonly #config: Config;
	readonly #planner: ServicePortPlanner;
	readonly #watch: NodeWatch;
	readonly #services = new Map<string, Service>();
	readonly #slices = new Map<string, EndpointSlice>();
	readonly #serviceCidrs = new Map<string, ServiceCidr>();
	#node: NodeInfo | undefined;

	constructor(flags: Readonly<Record<string, readonly string[]>> = {}) {
		const result = resolveConfig({
			flags: { manifests: ["/m"], ...SCENARIO_FLAGS, ...flags },
			file: undefined,
			env: {},
			hostname: SCENARIO_NODE,
		});
		if ("problems" in result) {
			throw new TypeError(result.problems.map(describeConfigProblem).join("\n"));
		}
		this.#config = result.config;
		this.#planner = createServicePortPlanner(result.config);
		this.#watch = new NodeWatch({
			config: result.config,
			log: silentLog,
			nodeInfo: () => this.#node,
			bindings: () => [],
			clock: { monotonicMs: () => 0, wallMs: () => 0 },
			system: {
				interfaces: () => INTERFACES,
				routes: () => "",
				linkNames: () => Object.keys(INTERFACES),
				links: () => [],
				waitingSockets: () => [],
			},
		});
	}

	/** @throws {TypeError} for an object that would not be admitted. */
	apply(raw: unknown): void {
		const { kind, value } = admitRaw(raw);
		if (kind === "Service") this.#services.set(objectKey(value), value);
		else if (kind === "EndpointSlice") this.#slices.set(objectKey(value), value);
		else if (kind === "ServiceCIDR") this.#serviceCidrs.set(value.name, value);
		else if (kind === "Node") this.#node = value;
		else throw new TypeError(`Cannot use kind ${kind} in a scenario`);
	}

	delete(raw: unknown): void {
		const { kind, value } = admitRaw(raw);
		if (kind === "Service") this.#services.delete(objectKey(value));
		else if (kind === "EndpointSlice") this.#slices.delete(objectKey(value));
		else if (kind === "ServiceCIDR") this.#serviceCidrs.delete(value.name);
		else this.#node = undefined;
	}

	/** Decides anew, as after each event. */
	outcome(): ModelOutcome {
		const snapshot: Snapshot = {
			services: new Map(this.#services),
			endpointSlices: new Map(this.#slices),
			serviceCidrs: new Map(this.#serviceCidrs),
			node: this.#node,
		};
		this.#watch.refresh();
		const plan = this.#planner.plan(snapshot, this.#watch.view());
		const { bindings, problems } = assumeBindings(plan.servicePorts, this.#config, (family) =>
			this.#watch.addressOf(family),
		);
		if (problems.length > 0) throw new Error(problems.join("\n"));
		const healthCheckPorts = plan.healthChecks.map(({ port }) => port);
		const { clusterIps } = plan;
		const wanted = { bindings, network: this.#watch.network(), healthCheckPorts, clusterIps };
		const textOf = (family: IpFamily) =>
			restoreText(planRules(wanted, family), parseSavedRules(""));
		return { plan, bindings, rules: { ipv4: textOf("ipv4"), ipv6: textOf("ipv6") } };
	}
}

function admitRaw(raw: unknown): ManifestValue {
	// As a file would have it: without what is undefined.
	const object = JSON.parse(JSON.stringify(raw)) as Record<string, unknown>;
	const { kind, apiVersion } = object;
	if (typeof kind !== "string" || !isManifestKind(kind, String(apiVersion))) {
		throw new TypeError(`Cannot use kind ${String(kind)} in a scenario`);
	}
	return admitted(admitObject(kind, object));
}
