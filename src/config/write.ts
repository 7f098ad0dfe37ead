import { stringify } from "yaml";
import type { Config, NodePortSelection } from "./config.ts";
import { formatDuration } from "./duration.ts";
import { formatListenAddress } from "./listen-address.ts";
import { formatPortRange } from "./port-range.ts";

/**
 * The Config as a KubeProxyConfiguration file that `--config` reads back.
 *
 * What has no field there (or none that could hold the value) is in the comment at its end as the
 * flags to give beside `--config`; file and flags together give the same Config again.
 */
export function renderConfigFile(config: Config): string {
	const flags = flagsBeyondFile(config).map(shellQuoted).join(" ");
	return `${stringify(fileFields(config))}# These have no field in this file; give them as flags beside --config FILE:\n#   ${flags}\n`;
}

function fileFields(config: Config): object {
	return {
		apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
		kind: "KubeProxyConfiguration",
		bindAddress: config.bindAddress ?? "0.0.0.0",
		bindAddressHardFail: config.bindAddressHardFail,
		clientConnection: { kubeconfig: config.cluster?.kubeconfig ?? "" },
		clusterCIDR: config.localDetection.clusterRanges.join(","),
		configSyncPeriod: formatDuration(config.configSyncPeriodMs),
		conntrack: {
			maxPerCore: config.conntrack.maxPerCore,
			min: config.conntrack.min,
			tcpBeLiberal: config.conntrack.tcpBeLiberal,
			tcpCloseWaitTimeout: formatDuration(config.conntrack.tcpCloseWaitS * 1000),
			tcpEstablishedTimeout: formatDuration(config.conntrack.tcpEstablishedS * 1000),
			udpStreamTimeout: formatDuration(config.conntrack.udpStreamS * 1000),
			udpTimeout: formatDuration(config.conntrack.udpS * 1000),
		},
		detectLocal: {
			bridgeInterface: config.localDetection.bridgeInterface ?? "",
			interfaceNamePrefix: config.localDetection.interfaceNamePrefix ?? "",
		},
		detectLocalMode: config.localDetection.mode,
		healthzBindAddress: formatListenAddress(config.healthzBindAddress),
		hostnameOverride: config.nodeName,
		iptables: {
			localhostNodePorts: config.localhostNodePorts,
			minSyncPeriod: formatDuration(config.rulesMinSyncPeriodMs),
			syncPeriod: formatDuration(config.rulesSyncPeriodMs),
		},
		logging: {
			format: config.logFormat === "json" ? "json" : "",
			verbosity: config.logLevel === "debug" ? 4 : 0,
		},
		metricsBindAddress: formatListenAddress(config.metricsBindAddress),
		mode: "userspace",
		nodePortAddresses: nodePortList(config.nodePortAddresses),
		oomScoreAdj: config.oomScoreAdj ?? null,
		portRange: formatPortRange(config.proxyPortRange),
		udpIdleTimeout: formatDuration(config.udpIdleMs),
	};
}

function nodePortList(selection: NodePortSelection): readonly string[] {
	const { isAll, isPrimary, isLocalhost } = selection;
	return [
		...(isAll ? ["all"] : []),
		...(isPrimary ? ["primary"] : []),
		...(isLocalhost ? ["localhost"] : []),
		...selection.ranges,
	];
}

/** @returns arguments as a program gets them, unquoted. */
export function flagsBeyondFile(config: Config): readonly string[] {
	const flags: string[] = [];
	const add = (name: string, text: string | undefined) => {
		if (text !== undefined) flags.push(`--${name}`, text);
	};
	for (const path of config.manifests) add("manifests", path);
	add("master", config.cluster?.master);
	add("service-proxy-name", config.serviceProxyName);
	// In the file, empty and 0 mean the default.
	if (config.healthzBindAddress === undefined) add("healthz-bind-address", "");
	if (config.metricsBindAddress === undefined) add("metrics-bind-address", "");
	if (config.oomScoreAdj === undefined) add("oom-score-adj", "");
	if (config.rulesMinSyncPeriodMs === 0) add("iptables-min-sync-period", "0");
	add("relay", config.relay);
	add("workers", config.workers?.toString());
	add("rules", config.rules);
	add("dial-timeouts", config.dialTimeoutsMs.map(formatDuration).join(","));
	add("half-close-timeout", formatDuration(config.halfCloseIdleMs));
	add("udp-first-answer-timeout", formatDuration(config.udpFirstAnswerMs));
	add("max-udp-flows", String(config.maxUdpFlows));
	add("drain-removed-endpoints", formatDuration(config.drainRemovedEndpointsMs));
	add("drain-timeout", formatDuration(config.drainTimeoutMs));
	if (config.allowedExternalIps !== undefined) {
		add("allow-external-ips", config.allowedExternalIps.join(",") || "none");
	}
	add("log-connections", config.logConnections);
	if (config.logFormat === "pretty") add("log-format", "pretty");
	if (config.logLevel === "warn" || config.logLevel === "error") add("log-level", config.logLevel);
	return flags;
}

/** For a POSIX shell, and on one line: a line break would end the comment. */
function shellQuoted(text: string): string {
	if (/^[\w@%+=:,./-]+$/.test(text)) return text;
	if (!/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
	// Bash's and POSIX 2024's dollar quotes.
	const escaped = text
		.replaceAll("\\", "\\\\")
		.replaceAll("'", "\\'")
		.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (mark) =>
			[...Buffer.from(mark)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""),
		);
	return `$'${escaped}'`;
}
