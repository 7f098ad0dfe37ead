import type { Config } from "./config.ts";

/**
 * What may change while the daemon runs. The rest is built into sockets, rules and sources at the
 * start. A new field of Config has to be decided here.
 */
const APPLIED: Readonly<Record<keyof Config, "live" | "restart">> = {
	manifests: "restart",
	cluster: "restart",
	serviceProxyName: "restart",
	nodeName: "restart",
	bindAddress: "restart",
	nodePortAddresses: "restart",
	localhostNodePorts: "restart",
	localDetection: "restart",
	allowedExternalIps: "restart",
	proxyPortRange: "restart",
	rules: "restart",
	relay: "restart",
	workers: "restart",
	rulesSyncPeriodMs: "restart",
	rulesMinSyncPeriodMs: "restart",
	configSyncPeriodMs: "restart",
	dialTimeoutsMs: "restart",
	halfCloseIdleMs: "restart",
	udpIdleMs: "restart",
	udpFirstAnswerMs: "restart",
	maxUdpFlows: "restart",
	conntrack: "restart",
	drainRemovedEndpointsMs: "restart",
	drainTimeoutMs: "live",
	healthzBindAddress: "restart",
	metricsBindAddress: "restart",
	bindAddressHardFail: "restart",
	oomScoreAdj: "restart",
	logFormat: "restart",
	logLevel: "live",
	logConnections: "live",
};

export interface ConfigChanges {
	/** Fields that differ and take effect at run time. */
	readonly applied: readonly (keyof Config)[];
	/** Fields that differ and wait for the next start. */
	readonly needRestart: readonly (keyof Config)[];
}

/** Which fields differ between the Config in use and one that was read anew. */
export function configChanges(old: Config, next: Config): ConfigChanges {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a literal object
	const fields = Object.keys(APPLIED) as readonly (keyof Config)[];
	const changed = fields.filter(
		// Plain data with a fixed order of keys, so equal texts are equal values.
		(field) => JSON.stringify(old[field]) !== JSON.stringify(next[field]),
	);
	return {
		applied: changed.filter((field) => APPLIED[field] === "live"),
		needRestart: changed.filter((field) => APPLIED[field] === "restart"),
	};
}

/**
 * The Config to go on with: the one in use, with what may change at run time taken from the new one.
 * What waits for a restart stays as it is, so that the next comparison names it again.
 */
export function applyChanges(
	old: Config,
	next: Config,
): ConfigChanges & { readonly config: Config } {
	const changes = configChanges(old, next);
	const live = Object.fromEntries(changes.applied.map((field) => [field, next[field]]));
	return { ...changes, config: Object.freeze({ ...old, ...live }) };
}
