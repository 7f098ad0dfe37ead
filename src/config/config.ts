import type { IpAddress } from "../services/address.ts";
import type { IpRange } from "../services/ip-range.ts";
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

/** Which of the node's own addresses node ports are on; the parts add up. */
export interface NodePortSelection {
	/** Every address of the node. */
	readonly isAll: boolean;
	/** The one by which the cluster knows the node, of each family. */
	readonly isPrimary: boolean;
	/** 127.0.0.0/8 and ::1. */
	readonly isLocalhost: boolean;
	/** Addresses in these; a family without any has all of its addresses. */
	readonly ranges: readonly IpRange[];
}

/** How packets of this node's Pods are told from those that come from outside, in kube-proxy's words. */
export type LocalDetectMode =
	| "ClusterCIDR"
	| "NodeCIDR"
	| "BridgeInterface"
	| "InterfaceNamePrefix";

export interface LocalDetection {
	readonly mode: LocalDetectMode;
	/** Addresses of all Pods of the cluster. */
	readonly clusterRanges: readonly IpRange[];
	readonly bridgeInterface: string | undefined;
	readonly interfaceNamePrefix: string | undefined;
}

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
	readonly nodePortAddresses: NodePortSelection;
	/** False: node ports are not on loopback addresses, unless those are asked for by name. */
	readonly localhostNodePorts: boolean;
	readonly localDetection: LocalDetection;
	/** External IPs outside of these are not served; undefined: all are. */
	readonly allowedExternalIps: readonly IpRange[] | undefined;
	/** Undefined: the kernel chooses. */
	readonly proxyPortRange: PortRange | undefined;
	readonly rules: "auto" | "iptables" | "none";
	readonly relay: "auto" | "stream" | "syscall";
	/** Undefined: as many as there are processors, at most 4. */
	readonly workers: number | undefined;
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
	/**
	 * TCP connections to an endpoint that was removed are ended after this, in milliseconds; 0: they go
	 * on until they end by themselves.
	 */
	readonly drainRemovedEndpointsMs: number;
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
