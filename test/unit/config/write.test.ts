import fc from "fast-check";
import { expect, test as it } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { type FlagName, isFlagName } from "../../../src/config/flags.ts";
import { flagsBeyondFile, renderConfigFile } from "../../../src/config/write.ts";
import { configOf, inputs, warningsOf } from "./inputs.ts";

/** The flags of the comment, as a command line would hand them in. */
function flagTexts(config: Config): Partial<Record<FlagName, string[]>> {
	const texts: Partial<Record<FlagName, string[]>> = {};
	const argv = flagsBeyondFile(config);
	for (let index = 0; index < argv.length; index += 2) {
		const name = argv[index]?.slice(2) ?? "";
		if (!isFlagName(name)) throw new Error(`no flag: ${name}`);
		texts[name] = [...(texts[name] ?? []), argv[index + 1] ?? ""];
	}
	return texts;
}

function readBack(config: Config) {
	return {
		flags: flagTexts(config),
		file: { path: "f", text: renderConfigFile(config) },
		env: { KUBERNETES_SERVICE_HOST: "10.96.0.1" },
		hostname: "elsewhere",
	};
}

it("renderConfigFile() writes what is in effect, the rest as flags in its comment", () => {
	expect(renderConfigFile(configOf(inputs({ manifests: ["/etc/my files"] })))).toBe(
		`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  kubeconfig: ""
clusterCIDR: ""
configSyncPeriod: 15m
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h
  tcpEstablishedTimeout: 24h
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: node1
iptables:
  localhostNodePorts: true
  minSyncPeriod: 1s
  syncPeriod: 30s
logging:
  format: json
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: userspace
nodePortAddresses:
  - all
oomScoreAdj: -999
portRange: ""
udpIdleTimeout: 30s
# These have no field in this file; give them as flags beside --config FILE:
#   --manifests '/etc/my files' --relay auto --rules auto --dial-timeouts 250ms,500ms,1s,2s --half-close-timeout 15m --udp-first-answer-timeout 5s --max-udp-flows 16384 --drain-removed-endpoints 0s --drain-timeout 30s --log-connections off
`,
	);
});

it("renderConfigFile() keeps a path with a line break inside the comment", () => {
	const text = renderConfigFile(configOf(inputs({ manifests: ["/a\nmode: ipvs"] })));
	expect(text).toContain("$'/a\\x0amode: ipvs'");
	expect(text).not.toMatch(/^mode: ipvs/m);
});

it("file and flags together give the same Config again, without a warning", () => {
	const ms = fc.integer({ min: 1, max: 2_000_000_000 }).map((value) => `${value}ms`);
	const flags = fc.record<Record<FlagName, string[]>>(
		{
			kubeconfig: fc.constantFrom(["/k"], [""]),
			master: fc.constantFrom(["https://192.0.2.1"], [""]),
			"service-proxy-name": fc.constant(["mine"]),
			"bind-address": fc.constantFrom(["::"], ["fd10::1"], ["192.0.2.1"]),
			"proxy-port-range": fc.constantFrom(["1-9"], ["0"]),
			"healthz-bind-address": fc.constantFrom([""], ["[::1]:7"]),
			"metrics-bind-address": fc.constantFrom([""], ["127.0.0.1:7"]),
			"oom-score-adj": fc.constantFrom([""], ["0"], ["5"]),
			"udp-timeout": fc.tuple(ms).map((text) => [...text]),
			"nodeport-addresses": fc.constantFrom(["primary,10.0.0.0/8"], ["localhost,fd00::/8"], [""]),
			"iptables-localhost-nodeports": fc.constantFrom(["true"], ["false"]),
			"cluster-cidr": fc.constantFrom(["10.244.0.0/16,fd00::/56"], [""]),
			"detect-local-mode": fc.constantFrom(["NodeCIDR"], [""]),
			"pod-bridge-interface": fc.constantFrom(["cni0"], [""]),
			"pod-interface-name-prefix": fc.constantFrom(["cali"], [""]),
			"allow-external-ips": fc.constantFrom(["203.0.113.0/24"], ["none"], [""]),
			"drain-removed-endpoints": fc.constantFrom(["0"], ["5m"]),
			"drain-timeout": fc.tuple(ms).map((text) => [...text]),
			"config-sync-period": fc.tuple(ms).map((text) => [...text]),
			"iptables-min-sync-period": fc.constantFrom(["0"], ["30s"], ["7ms"]),
			"bind-address-hard-fail": fc.constantFrom(["true"], ["false"]),
			"log-level": fc.constantFrom(["error"], ["warn"], ["info"], ["debug"]),
			"log-format": fc.constantFrom(["json"], ["pretty"]),
			"log-connections": fc.constantFrom(["off"], ["errors"], ["all"]),
			rules: fc.constantFrom(["none"], ["iptables"]),
			"conntrack-max-per-core": fc.constantFrom(["0"], ["7"]),
			"conntrack-min": fc.constantFrom(["0"], ["7"]),
			"conntrack-tcp-timeout-established": fc.constantFrom(["0"], ["90m1s"]),
			"conntrack-tcp-timeout-close-wait": fc.constantFrom(["0"], ["7s"]),
			"conntrack-tcp-be-liberal": fc.constantFrom(["true"], ["false"]),
			"conntrack-udp-timeout": fc.constantFrom(["0"], ["7s"]),
			"conntrack-udp-timeout-stream": fc.constantFrom(["0"], ["7s"]),
		} as never,
		{ requiredKeys: [] },
	);
	fc.assert(
		fc.property(flags, fc.boolean(), (given, withManifests) => {
			const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1" };
			const config = configOf({
				...inputs(),
				flags: { ...given, ...(withManifests ? { manifests: ["/m"] } : {}) },
				env,
			});
			expect(warningsOf(readBack(config))).toEqual([]);
			expect(configOf(readBack(config))).toEqual(config);
		}),
	);
});
