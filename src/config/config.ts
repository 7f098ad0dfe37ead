import type { IpAddress } from "../services/address.ts";
import type { Port } from "../services/port.ts";

/** "0.0.0.0:10256" in parts. */
export interface ListenAddress {
	readonly address: IpAddress;
	readonly port: Port;
}

/** Ports that proxy listeners may use, both ends included. */
export interface PortRange {
	readonly first: Port;
	readonly last: Port;
}

export type LogLevel = "error" | "warn" | "info" | "debug";
type LogConnections = "off" | "errors" | "all";

/** How the daemon is to run: every value checked, every default filled in, frozen. */
export interface Config {
	/** Files and folders with manifests; empty when a cluster is the source. */
	readonly manifests: readonly string[];
	/** The cluster, or undefined when manifests are the only source. */
	readonly cluster: ClusterConfig | undefined;
	/** Serve only Services with this `service.kubernetes.io/service-proxy-name`; undefined: those without. */
	readonly serviceProxyName: string | undefined;
	/** This node's name in the cluster, lower case. */
	readonly nodeName: string;
	/** Where proxy listeners bind; undefined: every address of their family. */
	readonly bindAddress: IpAddress | undefined;
	/** Undefined: the kernel chooses. */
	readonly proxyPortRange: PortRange | undefined;
	readonly rules: "auto" | "iptables" | "none";
	readonly relay: "auto" | "stream";
	/** How long the packet rules may differ from what they should be, in milliseconds. */
	readonly rulesSyncPeriodMs: number;
	/** Rules are not applied more often than this, in milliseconds; 0: no limit. */
	readonly rulesMinSyncPeriodMs: number;
	/** Whole state handed to the proxies again, in milliseconds. */
	readonly configSyncPeriodMs: number;
	/** One timeout per dial attempt, in milliseconds; at least one. */
	readonly dialTimeoutsMs: readonly number[];
	/** A connection with one direction ended may be silent this long, in milliseconds. */
	readonly halfCloseIdleMs: number;
	/** A UDP flow without datagrams ends after this, in milliseconds. */
	readonly udpIdleMs: number;
	/** ... but one that never had an answer waits at least this long, in milliseconds. */
	readonly udpFirstAnswerMs: number;
	/** UDP flows kept at most, over all Services. */
	readonly maxUdpFlows: number;
	/** Settings of the kernel's connection tracking. */
	readonly conntrack: ConntrackConfig;
	/** Existing connections get this long at a stop, in milliseconds. */
	readonly drainTimeoutMs: number;
	/** Undefined: not served. */
	readonly healthzBindAddress: ListenAddress | undefined;
	/** Undefined: not served. */
	readonly metricsBindAddress: ListenAddress | undefined;
	/** True: a health or metrics address that cannot be bound ends the daemon. */
	readonly bindAddressHardFail: boolean;
	/** For /proc/self/oom_score_adj; undefined: left alone. */
	readonly oomScoreAdj: number | undefined;
	readonly logFormat: "json" | "pretty";
	readonly logLevel: LogLevel;
	readonly logConnections: LogConnections;
}

/** 0 and false: the setting is left alone. Timeouts in seconds, as the kernel has them. */
export interface ConntrackConfig {
	/** Connections tracked per CPU; 0 leaves the size of the table alone, whatever `min` says. */
	readonly maxPerCore: number;
	/** ... and at least this many. */
	readonly min: number;
	readonly tcpEstablishedS: number;
	readonly tcpCloseWaitS: number;
	readonly tcpBeLiberal: boolean;
	readonly udpS: number;
	readonly udpStreamS: number;
}

export interface ClusterConfig {
	/** Path of a kubeconfig; undefined: in-cluster credentials, or `master` alone. */
	readonly kubeconfig: string | undefined;
	/** URL of the API server, in place of the kubeconfig's. */
	readonly master: string | undefined;
}
