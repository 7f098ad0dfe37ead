import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { FLAG_NAMES, type FlagName } from "../../../src/config/flags.ts";
import { resolveConfig } from "../../../src/config/resolve.ts";
import { configOf, file, inputs, problemsOf, warningsOf } from "./inputs.ts";

it("resolveConfig() fills in every default (classic 9.1.23, 9.7.6)", () => {
	expect(configOf(inputs())).toEqual({
		manifests: ["/etc/manifests"],
		cluster: undefined,
		serviceProxyName: undefined,
		nodeName: "node1",
		bindAddress: undefined,
		nodePortAddresses: { isAll: true, isPrimary: false, isLocalhost: false, ranges: [] },
		localhostNodePorts: true,
		localDetection: {
			mode: "ClusterCIDR",
			clusterRanges: [],
			bridgeInterface: undefined,
			interfaceNamePrefix: undefined,
		},
		allowedExternalIps: undefined,
		proxyPortRange: undefined,
		rules: "auto",
		relay: "auto",
		rulesSyncPeriodMs: 30_000,
		rulesMinSyncPeriodMs: 1000,
		configSyncPeriodMs: 900_000,
		dialTimeoutsMs: [250, 500, 1000, 2000],
		halfCloseIdleMs: 900_000,
		udpIdleMs: 30_000,
		udpFirstAnswerMs: 5000,
		maxUdpFlows: 16_384,
		conntrack: {
			maxPerCore: 32_768,
			min: 131_072,
			tcpEstablishedS: 86_400,
			tcpCloseWaitS: 3600,
			tcpBeLiberal: false,
			udpS: 0,
			udpStreamS: 0,
		},
		drainRemovedEndpointsMs: 0,
		drainTimeoutMs: 30_000,
		healthzBindAddress: { address: "0.0.0.0", port: 10_256 },
		metricsBindAddress: { address: "127.0.0.1", port: 10_249 },
		bindAddressHardFail: false,
		oomScoreAdj: -999,
		logFormat: "json",
		logLevel: "info",
		logConnections: "off",
	});
});

it("resolveConfig() gives a Config that nobody can change", () => {
	const config = configOf(inputs({ "proxy-port-range": ["1-2"] }));
	expect(Object.isFrozen(config)).toBe(true);
	expect(Object.isFrozen(config.manifests)).toBe(true);
	expect(Object.isFrozen(config.dialTimeoutsMs)).toBe(true);
	expect(Object.isFrozen(config.proxyPortRange)).toBe(true);
	expect(Object.isFrozen(config.nodePortAddresses.ranges)).toBe(true);
	expect(Object.isFrozen(config.localDetection.clusterRanges)).toBe(true);
	expect(Object.values(config).every((value) => Object.isFrozen(value))).toBe(true);
	expect(Object.isFrozen(config.conntrack)).toBe(true);
});

it("resolveConfig() tells every problem at once, each with where, wanted and got (classic 9.7.6)", () => {
	const given = inputs(
		{
			"udp-timeout": ["abc"],
			"proxy-port-range": ["9-1"],
			rules: ["nftables"],
			"oom-score-adj": ["-2000"],
			manifests: [""],
		},
		{ file: file("configSyncPeriod: -5s", "metricsBindAddress: localhost:1") },
	);
	expect(problemsOf(given).toSorted(byText)).toEqual(
		[
			'--manifests: wanted a path, got ""',
			'--rules: wanted auto, iptables or none, got "nftables"',
			'--proxy-port-range: wanted ports as N, FIRST-LAST or FIRST+COUNT within 1..65535, or 0 for any, got "9-1"',
			'/etc/proxy.yaml: configSyncPeriod: wanted a duration such as 15m, at least 1ms and at most 596h, got "-5s"',
			'--udp-timeout: wanted a duration such as 30s, got "abc"',
			'/etc/proxy.yaml: metricsBindAddress: wanted an IP address with or without a port, such as 127.0.0.1:10249, got "localhost:1"',
			'--oom-score-adj: wanted an integer in -1000..1000, got "-2000"',
		].toSorted(byText),
	);
});

describe("where Services come from", () => {
	it("manifests alone need no cluster; each path counts once, in order", () => {
		const config = configOf(inputs({ manifests: ["/b", "/a", "/b"] }));
		expect(config.manifests).toEqual(["/b", "/a"]);
		expect(config.cluster).toBeUndefined();
	});

	it("a kubeconfig or a master beside manifests makes both sources", () => {
		expect(configOf(inputs({ kubeconfig: ["/k"] })).cluster).toEqual({
			kubeconfig: "/k",
			master: undefined,
		});
		expect(configOf(inputs({ master: ["https://192.0.2.1:6443"] })).cluster).toEqual({
			kubeconfig: undefined,
			master: "https://192.0.2.1:6443",
		});
	});

	it("nothing given means in-cluster credentials where the environment has them", () => {
		const given = { flags: {}, file: undefined, env: {}, hostname: "node1" };
		const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1" };
		expect(configOf({ ...given, env }).cluster).toEqual({
			kubeconfig: undefined,
			master: undefined,
		});
		for (const bare of [{}, { KUBERNETES_SERVICE_HOST: "" }]) {
			expect(problemsOf({ ...given, env: bare })).toEqual([
				expect.stringContaining("no source of Services: give --manifests PATH"),
			]);
		}
	});

	it("in-cluster credentials are not used where something was given", () => {
		const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1" };
		expect(configOf(inputs({}, { env })).cluster).toBeUndefined();
	});

	it.each(["", "a b", "-a", "x".repeat(64), "a/b"])("a proxy name cannot be %j", (name) => {
		// The empty one above all: an unset variable would claim every Service of the node.
		expect(problemsOf(inputs({ "service-proxy-name": [name] }))).toHaveLength(1);
	});

	it.each(["192.0.2.1:6443", "ftp://a", "https://u:p@a", "https://", "https://a?x"])(
		"a master cannot be %j",
		(master) => {
			expect(problemsOf(inputs({ master: [master] }))).toHaveLength(1);
		},
	);
});

describe("the node's name (classic 9.7.5)", () => {
	it.each([
		[["  Node-A.Example "], {}, "host", "node-a.example"],
		[undefined, { NODE_NAME: " N2 " }, "host", "n2"],
		[[""], { NODE_NAME: "" }, "Host.Example", "host.example"],
		[undefined, { NODE_NAME: "  " }, "my_host", "my_host"],
	])("flag %j, environment %j, host %j: %s", (flag, env, hostname, expected) => {
		const flags = flag === undefined ? {} : { "hostname-override": flag };
		expect(configOf(inputs(flags, { env, hostname })).nodeName).toBe(expected);
	});

	it("the file's name counts before the environment's, the flag's before the file's", () => {
		const given = { file: file("hostnameOverride: FromFile"), env: { NODE_NAME: "env" } };
		expect(configOf(inputs({}, given)).nodeName).toBe("fromfile");
		expect(configOf(inputs({ "hostname-override": ["flag"] }, given)).nodeName).toBe("flag");
	});

	it.each([["   "], ["a,metadata.namespace=x"], ["-a"], ["a".repeat(254)], ["a b"]])(
		"cannot be %j",
		(name) => {
			expect(problemsOf(inputs({ "hostname-override": [name] }))).toEqual([
				expect.stringMatching(/^--hostname-override: wanted a node name: .*, got "/),
			]);
		},
	);

	it("a host without a usable name is told the way out", () => {
		expect(problemsOf(inputs({}, { hostname: "(none)" }))).toEqual([
			`host name (or give --hostname-override): wanted a node name: 1 to 253 letters, digits, '-' or '.', got "(none)"`,
		]);
		expect(problemsOf(inputs({}, { hostname: "" }))).toHaveLength(1);
		expect(problemsOf(inputs({}, { env: { NODE_NAME: "a b" } }))).toEqual([
			expect.stringMatching(/^NODE_NAME \(or give --hostname-override\)/),
		]);
	});
});

describe("addresses", () => {
	it.each([
		["", undefined],
		["0.0.0.0", undefined],
		["::", undefined],
		["192.0.2.1", "192.0.2.1"],
		["FD10::1", "fd10::1"],
	])("--bind-address %j binds to %s", (text, expected) => {
		expect(configOf(inputs({ "bind-address": [text] })).bindAddress).toBe(expected);
	});

	it.each(["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "1.2.3.4:80"])(
		"--bind-address cannot be %j (classic 9.7.6)",
		(text) => {
			expect(problemsOf(inputs({ "bind-address": [text] }))).toHaveLength(1);
		},
	);

	it("an empty health or metrics address is not served", () => {
		const config = configOf(inputs({ "healthz-bind-address": [""], "metrics-bind-address": [""] }));
		expect(config.healthzBindAddress).toBeUndefined();
		expect(config.metricsBindAddress).toBeUndefined();
	});

	it("the defaults follow the family of --bind-address, given ones do not", () => {
		const config = configOf(
			inputs({ "bind-address": ["::"], "metrics-bind-address": ["127.0.0.1"] }),
		);
		expect(config.healthzBindAddress).toEqual({ address: "::", port: 10_256 });
		expect(config.metricsBindAddress).toEqual({ address: "127.0.0.1", port: 10_249 });
	});
});

describe("periods (classic 9.7.6)", () => {
	it("0 as a flag means no limit", () => {
		const config = configOf(inputs({ "iptables-min-sync-period": ["0"] }));
		expect(config.rulesMinSyncPeriodMs).toBe(0);
	});

	it("the minimum may be the period, not more, wherever the two come from", () => {
		expect(
			problemsOf(inputs({ "iptables-min-sync-period": ["30s"], "iptables-sync-period": ["30s"] })),
		).toEqual([]);
		const given = { file: file("iptables: {syncPeriod: 5s}") };
		expect(problemsOf(inputs({ "iptables-min-sync-period": ["6s"] }, given))).toEqual([
			"--iptables-min-sync-period: wanted at most the period of /etc/proxy.yaml: iptables.syncPeriod, got more",
		]);
	});

	it.each([
		"udp-timeout",
		"iptables-sync-period",
		"config-sync-period",
		"half-close-timeout",
	] as const)("--%s cannot be 0", (name) => {
		expect(problemsOf(inputs({ [name]: ["0s"] }))).toHaveLength(1);
	});

	it.each(["", "0s", "1s,,2s", "1s,-1s", Array(17).fill("1s").join(",")])(
		"--dial-timeouts cannot be %j",
		(text) => {
			expect(problemsOf(inputs({ "dial-timeouts": [text] }))).toHaveLength(1);
		},
	);

	it("--dial-timeouts takes blanks after the commas", () => {
		const config = configOf(inputs({ "dial-timeouts": ["100ms, 1m"] }));
		expect(config.dialTimeoutsMs).toEqual([100, 60_000]);
	});
});

describe("the log level", () => {
	it.each([
		[{ v: ["0"] }, "info"],
		[{ v: ["=3"] }, "info"],
		[{ v: ["4"] }, "debug"],
		[{ v: ["9"], "log-level": ["warn"] }, "warn"],
		[{ "log-level": ["error"] }, "error"],
	] as const)("%j is %s", (flags, level) => {
		expect(configOf(inputs(flags)).logLevel).toBe(level);
	});
});

it("a flag wins over the file, and the last of several counts", () => {
	const given = { file: file("udpIdleTimeout: 10s", "portRange: 1000-2000") };
	const config = configOf(inputs({ "udp-timeout": ["20s", "25s"] }, given));
	expect(config.udpIdleMs).toBe(25_000);
	expect(config.proxyPortRange).toEqual({ first: 1000, last: 2000 });
});

it("a file's value is judged even where a flag wins", () => {
	const given = { file: file("portRange: x") };
	expect(problemsOf(inputs({ "proxy-port-range": ["1-2"] }, given))).toHaveLength(1);
});

it("what is shown of a bad value is one line, escaped and cut", () => {
	const [problem] = problemsOf(inputs({ rules: [`\u001b[31m\n\u009b${"x".repeat(1000)}`] }));
	expect(problem).toMatch(/^--rules: wanted .*, got "\\u001b\[31m\\n\\u009bx+…"$/);
	expect(problem?.length).toBeLessThan(200);
});

describe("any text", () => {
	it("for any flag gives a Config or problems and never throws", () => {
		const text = fc.oneof(
			fc.string({ unit: "binary" }),
			fc.constantFrom("0", "-1", "1s", "1-2", "::", "0.0.0.0:1", "all", "https://a", "1e99s"),
			fc.stringMatching(/^[0-9a-z:.,+-]{0,12}$/),
		);
		const flags = fc.dictionary(
			fc.constantFrom<FlagName>(...FLAG_NAMES),
			fc.array(text, { minLength: 1, maxLength: 2 }),
		);
		fc.assert(
			fc.property(flags, text, (given, hostname) => {
				const result = resolveConfig({ flags: given, file: undefined, env: {}, hostname });
				expect(
					"problems" in result ? result.problems.length > 0 : Object.isFrozen(result.config),
				).toBe(true);
			}),
			{ numRuns: 1000 },
		);
	});

	it("as a file gives a Config or problems and never throws", () => {
		const value = fc.jsonValue({ maxDepth: 2 });
		const field = fc.constantFrom(
			"mode",
			"iptables",
			"ipvs",
			"logging",
			"bindAddress",
			"x",
			"kind",
		);
		const text = fc.oneof(
			fc.string({ unit: "binary" }),
			fc.dictionary(field, value).map((fields) => JSON.stringify({ ...KIND, ...fields })),
		);
		fc.assert(
			fc.property(text, (content) => {
				const result = resolveConfig(inputs({}, { file: { path: "f", text: content } }));
				const good =
					"problems" in result
						? result.problems.length > 0
						: result.warnings.every((line) => !line.includes("\n"));
				expect(good).toBe(true);
			}),
			{ numRuns: 500 },
		);
	});
});

it("without a file there is nothing to warn of", () => {
	expect(warningsOf(inputs())).toEqual([]);
});

const KIND = {
	apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
	kind: "KubeProxyConfiguration",
};

function byText(a: string, b: string): number {
	return a < b ? -1 : 1;
}

describe("the kernel's connection tracking", () => {
	it("takes whole seconds, since the kernel does, and cuts off the rest", () => {
		const given = inputs({ "conntrack-udp-timeout": ["1500ms"] });
		expect(configOf(given).conntrack.udpS).toBe(1);
	});

	it("0 leaves a setting alone; a part of a second would be 0 and is refused", () => {
		const given = inputs({
			"conntrack-tcp-timeout-established": ["0"],
			"conntrack-tcp-timeout-close-wait": ["999ms"],
		});
		expect(problemsOf(given)).toEqual([
			'--conntrack-tcp-timeout-close-wait: wanted 0, or a duration such as 1h, at least 1s and at most 596h, got "999ms"',
		]);
	});

	it("is left alone with --rules none, and flags for it are said to have no effect", () => {
		const given = inputs({
			rules: ["none"],
			"conntrack-min": ["5"],
			"conntrack-udp-timeout": ["5s"],
		});
		expect(warningsOf(given)).toEqual([
			"without effect with --rules none: --conntrack-min, --conntrack-udp-timeout",
		]);
		expect(warningsOf(inputs({ rules: ["none"] }))).toEqual([]);
		expect(warningsOf(inputs({ "conntrack-min": ["5"] }))).toEqual([]);
	});

	it("warns of workers where no engine has any", () => {
		expect(warningsOf(inputs({ workers: ["3"] }))).toEqual([]);
		expect(warningsOf(inputs({ workers: ["3"], relay: ["stream"] }))).toEqual([
			"without effect with --relay stream: --workers",
		]);
		expect(warningsOf(inputs({ workers: ["3"], relay: ["syscall"] }))).toEqual([]);
		expect(warningsOf(inputs({ relay: ["stream"] }))).toEqual([]);
	});

	it("takes no number that the kernel could not hold", () => {
		const given = inputs({ "conntrack-min": ["2147483648"], "conntrack-max-per-core": ["-1"] });
		expect(problemsOf(given)).toEqual([
			'--conntrack-max-per-core: wanted an integer in 0..2147483647, got "-1"',
			'--conntrack-min: wanted an integer in 0..2147483647, got "2147483648"',
		]);
	});
});
