import { z } from "zod";
import { parseDuration } from "./duration.ts";
import type { FlagName } from "./flags.ts";

/**
 * The one table of KubeProxyConfiguration's fields (kubeproxy.config.k8s.io/v1alpha1): type, and what
 * this daemon makes of each. The schema is built from it.
 */

export type FieldRule = {
	readonly type: z.ZodType;
} & (
	| {
			/** Means the same as the text of this flag. */
			readonly use: "flag";
			readonly flag: FlagName;
			/** Values that kube-proxy takes for "not set", besides null and the empty text. */
			readonly unset: readonly unknown[];
			/** kube-proxy reads the field in these modes only; undefined: in all. */
			readonly modes?: readonly string[];
	  }
	| {
			/** Has no effect here; said, unless the value is blank or one of `defaults`. */
			readonly use: "ignored";
			/** kube-proxy's own defaults, which its --write-config-to fills in. */
			readonly defaults: readonly unknown[];
	  }
	/** Read by itself. */
	| { readonly use: "mode" | "kind" | "logFormat" }
);

const text = z.string();
const flagged = z.boolean();
const whole = z.int();
const list = z.array(z.string());
const time = z.string().refine((value) => value === "" || parseDuration(value) !== undefined, {
	error: "a duration such as 30s",
});

function same(type: z.ZodType, flag: FlagName, unset: readonly unknown[] = []): FieldRule {
	return { type, use: "flag", flag, unset };
}

function period(flag: FlagName, ...modes: string[]): FieldRule {
	return { type: time, use: "flag", flag, unset: ["0s"], modes };
}

function ignored(type: z.ZodType, ...defaults: unknown[]): FieldRule {
	return { type, use: "ignored", defaults };
}

/** What is left of kube-proxy's modes for us is which section of the file it reads. */
const IPTABLES_LIKE = ["", "userspace", "iptables"] as const;

export const KUBE_PROXY_FIELDS: Readonly<Record<string, FieldRule>> = {
	apiVersion: { type: text, use: "kind" },
	kind: { type: text, use: "kind" },
	bindAddress: same(text, "bind-address"),
	bindAddressHardFail: same(flagged, "bind-address-hard-fail"),
	"clientConnection.acceptContentTypes": ignored(text),
	"clientConnection.burst": ignored(whole, 10),
	"clientConnection.contentType": ignored(
		text,
		"application/vnd.kubernetes.protobuf",
		"application/json",
	),
	"clientConnection.kubeconfig": same(text, "kubeconfig"),
	"clientConnection.qps": ignored(z.number(), 5),
	clusterCIDR: same(text, "cluster-cidr"),
	configSyncPeriod: same(time, "config-sync-period", ["0s"]),
	// Unlike elsewhere in the file, 0 is a value of its own here: leave the kernel alone.
	"conntrack.maxPerCore": same(whole, "conntrack-max-per-core"),
	"conntrack.min": same(whole, "conntrack-min"),
	"conntrack.tcpBeLiberal": same(flagged, "conntrack-tcp-be-liberal"),
	"conntrack.tcpCloseWaitTimeout": same(time, "conntrack-tcp-timeout-close-wait"),
	"conntrack.tcpEstablishedTimeout": same(time, "conntrack-tcp-timeout-established"),
	"conntrack.udpStreamTimeout": same(time, "conntrack-udp-timeout-stream"),
	"conntrack.udpTimeout": same(time, "conntrack-udp-timeout"),
	"detectLocal.bridgeInterface": same(text, "pod-bridge-interface"),
	"detectLocal.interfaceNamePrefix": same(text, "pod-interface-name-prefix"),
	detectLocalMode: same(text, "detect-local-mode"),
	enableProfiling: ignored(flagged),
	featureGates: ignored(z.record(z.string(), z.boolean())),
	healthzBindAddress: same(text, "healthz-bind-address"),
	hostnameOverride: same(text, "hostname-override"),
	"iptables.localhostNodePorts": same(flagged, "iptables-localhost-nodeports"),
	"iptables.masqueradeAll": ignored(flagged),
	"iptables.masqueradeBit": ignored(whole, 14),
	"iptables.minSyncPeriod": period("iptables-min-sync-period", ...IPTABLES_LIKE),
	"iptables.syncPeriod": period("iptables-sync-period", ...IPTABLES_LIKE),
	"ipvs.excludeCIDRs": ignored(list),
	"ipvs.minSyncPeriod": period("iptables-min-sync-period", "ipvs"),
	"ipvs.scheduler": ignored(text, "rr"),
	"ipvs.strictARP": ignored(flagged),
	"ipvs.syncPeriod": period("iptables-sync-period", "ipvs"),
	"ipvs.tcpFinTimeout": period("half-close-timeout", "ipvs"),
	"ipvs.tcpTimeout": ignored(time),
	"ipvs.udpTimeout": period("udp-timeout", "ipvs"),
	"logging.flushFrequency": ignored(z.union([z.number(), time]), 5_000_000_000, "5s"),
	"logging.format": { type: text, use: "logFormat" },
	"logging.options": ignored(z.record(z.string(), z.unknown())),
	"logging.verbosity": same(whole, "v", [0]),
	"logging.vmodule": ignored(z.array(z.unknown())),
	metricsBindAddress: same(text, "metrics-bind-address"),
	mode: { type: text, use: "mode" },
	"nftables.masqueradeAll": ignored(flagged),
	"nftables.masqueradeBit": ignored(whole, 14),
	"nftables.minSyncPeriod": period("iptables-min-sync-period", "nftables"),
	"nftables.syncPeriod": period("iptables-sync-period", "nftables"),
	nodePortAddresses: same(list, "nodeport-addresses"),
	oomScoreAdj: same(whole, "oom-score-adj"),
	portRange: same(text, "proxy-port-range"),
	showHiddenMetricsForVersion: ignored(text),
	// Gone from kube-proxy with its userspace mode; files of that time have it.
	udpIdleTimeout: same(time, "udp-timeout", ["0s"]),
	windowsRunAsService: ignored(flagged),
	"winkernel.enableDSR": ignored(flagged),
	"winkernel.forwardHealthCheckVip": ignored(flagged),
	"winkernel.networkName": ignored(text),
	"winkernel.rootHnsEndpointName": ignored(text),
	"winkernel.sourceVip": ignored(text),
};

/** kube-proxy's defaults for the periods that only some modes read. */
const PERIOD_DEFAULTS = ["1s", "30s"] as const;

/** Whether an ignored value asks for nothing: kube-proxy's default, or blank. */
export function asksForNothing(rule: FieldRule, value: unknown): boolean {
	if (isBlank(value)) return true;
	const defaults =
		rule.use === "ignored" ? rule.defaults : rule.use === "flag" ? PERIOD_DEFAULTS : [];
	return defaults.some((known) => value === known || sameDuration(value, known));
}

/** null, "", 0, false, "0", "0s", and whatever holds nothing else. */
export function isBlank(value: unknown): boolean {
	if (typeof value === "object" && value !== null) return Object.values(value).every(isBlank);
	if (typeof value === "string") return value === "" || parseDuration(value) === 0;
	return value === undefined || value === null || value === 0 || value === false;
}

function sameDuration(value: unknown, known: unknown): boolean {
	if (typeof value !== "string" || typeof known !== "string") return false;
	const ms = parseDuration(value);
	return ms !== undefined && ms === parseDuration(known);
}

type Shape = Record<string, z.ZodType>;

/** Strict: an unknown field is an issue of its own, which the reader takes for a warning. */
export const kubeProxySchema = z.strictObject(shapeOf());

function shapeOf(): Shape {
	const shape: Shape = {};
	const sections: Record<string, Shape> = {};
	for (const [path, { type }] of Object.entries(KUBE_PROXY_FIELDS)) {
		const [section = "", field] = path.split(".");
		if (field === undefined) shape[section] = type.nullish();
		else {
			sections[section] ??= {};
			sections[section][field] = type.nullish();
		}
	}
	for (const [section, fields] of Object.entries(sections)) {
		shape[section] = z.strictObject(fields).nullish();
	}
	return shape;
}
