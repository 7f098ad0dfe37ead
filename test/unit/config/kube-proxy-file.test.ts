import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { KUBE_PROXY_FIELDS } from "../../../src/config/kube-proxy-fields.ts";
import { configOf, file, inputs, problemsOf, warningsOf } from "./inputs.ts";

function fixture(name: string): { readonly path: string; readonly text: string } {
	const url = new URL(`../../fixtures/config/${name}`, import.meta.url);
	return { path: name, text: readFileSync(url, "utf8") };
}

/** Of a host that gives nothing but the file. */
function alone(given: { readonly path: string; readonly text: string }) {
	return { flags: {}, file: given, env: {}, hostname: "node1" };
}

it("the file that kubeadm writes loads without a word", () => {
	const given = alone(fixture("kubeadm.yaml"));
	expect(warningsOf(given)).toEqual([]);
	expect(configOf(given).cluster).toEqual({
		kubeconfig: "/var/lib/kube-proxy/kubeconfig.conf",
		master: undefined,
	});
});

it("what kubeadm leaves open is the default", () => {
	const fromFile = configOf(alone(fixture("kubeadm.yaml")));
	const bare = configOf(inputs());
	const { localDetection } = fromFile;
	expect(localDetection.clusterRanges).toEqual(["10.244.0.0/16"]);
	expect({ ...fromFile, cluster: undefined, manifests: [] }).toEqual({
		...bare,
		localDetection,
		manifests: [],
	});
});

it("kube-proxy's own defaults, written out, load without a word and change nothing (classic 9.7.6)", () => {
	const given = alone(fixture("all-defaults.yaml"));
	expect(warningsOf(given)).toEqual([]);
	const fromFile = configOf(given);
	expect({ ...fromFile, cluster: undefined, manifests: [] }).toEqual({
		...configOf(inputs()),
		manifests: [],
	});
});

it("a ConfigMap is told apart from what it holds", () => {
	expect(problemsOf(alone(fixture("kubeadm-configmap.yaml")))).toContain(
		'kubeadm-configmap.yaml: is a ConfigMap; give what it holds under data (in kubeadm\'s: "config.conf") as a file of its own',
	);
});

describe("fields with a meaning here", () => {
	it.each([
		["bindAddress: 192.0.2.7", { bindAddress: "192.0.2.7" }],
		["bindAddressHardFail: true", { bindAddressHardFail: true }],
		["configSyncPeriod: 5m", { configSyncPeriodMs: 300_000 }],
		["configSyncPeriod: 0s", { configSyncPeriodMs: 900_000 }],
		[
			"healthzBindAddress: 127.0.0.1",
			{ healthzBindAddress: { address: "127.0.0.1", port: 10_256 } },
		],
		['healthzBindAddress: ""', { healthzBindAddress: { address: "0.0.0.0", port: 10_256 } }],
		["metricsBindAddress: '[::1]:9'", { metricsBindAddress: { address: "::1", port: 9 } }],
		["oomScoreAdj: 0", { oomScoreAdj: 0 }],
		["oomScoreAdj: null", { oomScoreAdj: -999 }],
		["portRange: 30000+9", { proxyPortRange: { first: 30_000, last: 30_009 } }],
		["udpIdleTimeout: 250ms", { udpIdleMs: 250 }],
		["udpIdleTimeout: 0s", { udpIdleMs: 30_000 }],
		[
			"iptables: {syncPeriod: 10s, minSyncPeriod: 0s}",
			{ rulesSyncPeriodMs: 10_000, rulesMinSyncPeriodMs: 1000 },
		],
		[
			"{mode: ipvs, ipvs: {syncPeriod: 9s, minSyncPeriod: 2s}}",
			{ rulesSyncPeriodMs: 9000, rulesMinSyncPeriodMs: 2000 },
		],
		[
			"{mode: ipvs, ipvs: {udpTimeout: 7s, tcpFinTimeout: 2m}}",
			{ udpIdleMs: 7000, halfCloseIdleMs: 120_000 },
		],
		["{mode: nftables, nftables: {syncPeriod: 8s}}", { rulesSyncPeriodMs: 8000 }],
		["logging: {verbosity: 4}", { logLevel: "debug" }],
		["logging: {verbosity: 2, format: json}", { logLevel: "info", logFormat: "json" }],
		["logging: {format: text}", { logFormat: "json" }],
	])("%s", (line, expected) => {
		const lines = line.startsWith("{") ? flowLines(line) : [line];
		expect(configOf(inputs({}, { file: file(...lines) }))).toMatchObject(expected);
	});
});

describe("fields without effect here", () => {
	const samples: Readonly<Record<string, string>> = {
		"clientConnection.acceptContentTypes": "application/json",
		"clientConnection.burst": "7",
		"clientConnection.contentType": "application/yaml",
		"clientConnection.qps": "7.5",
		enableProfiling: "true",
		featureGates: "{A: true}",
		"iptables.masqueradeAll": "true",
		"iptables.masqueradeBit": "15",
		"ipvs.excludeCIDRs": "[10.0.0.0/8]",
		"ipvs.minSyncPeriod": "5s",
		"ipvs.scheduler": "lc",
		"ipvs.strictARP": "true",
		"ipvs.syncPeriod": "5s",
		"ipvs.tcpFinTimeout": "5s",
		"ipvs.tcpTimeout": "5s",
		"ipvs.udpTimeout": "5s",
		"logging.flushFrequency": "1s",
		"logging.format": "xml",
		"logging.options": "{json: {splitStream: true}}",
		"logging.vmodule": "[{filePattern: a, verbosity: 3}]",
		"nftables.masqueradeAll": "true",
		"nftables.masqueradeBit": "15",
		"nftables.minSyncPeriod": "5s",
		"nftables.syncPeriod": "5s",
		showHiddenMetricsForVersion: "'1.20'",
		windowsRunAsService: "true",
		"winkernel.enableDSR": "true",
		"winkernel.forwardHealthCheckVip": "true",
		"winkernel.networkName": "a",
		"winkernel.rootHnsEndpointName": "a",
		"winkernel.sourceVip": "10.0.0.1",
	};

	it.each(Object.entries(samples))("%s: %s is said", (name, value) => {
		expect(warningsOf(inputs({}, { file: file(flow(name, value)) }))).toEqual([
			`/etc/proxy.yaml: without effect here: ${name}`,
		]);
	});

	it("every field that can be without effect has its sample above", () => {
		const ignorable = Object.entries(KUBE_PROXY_FIELDS)
			.filter(([, rule]) => rule.use === "ignored")
			.map(([name]) => name);
		expect(Object.keys(samples)).toEqual(expect.arrayContaining(ignorable));
	});

	it("all share one line", () => {
		const given = file("featureGates: {A: true}", "ipvs: {scheduler: lc}");
		expect(warningsOf(inputs({}, { file: given }))).toEqual([
			"/etc/proxy.yaml: without effect here: featureGates, ipvs.scheduler",
		]);
	});

	it("sections of another mode are among them, as kube-proxy does not read them either", () => {
		const given = file("mode: ipvs", "iptables: {syncPeriod: 5s}");
		expect(warningsOf(inputs({}, { file: given }))[0]).toBe(
			"/etc/proxy.yaml: without effect here: iptables.syncPeriod",
		);
	});

	it("what tells Pods and node ports apart means what the flags mean", () => {
		const given = file(
			"clusterCIDR: 10.244.0.0/16",
			"detectLocalMode: BridgeInterface",
			"detectLocal: {bridgeInterface: cni0}",
			"nodePortAddresses: [10.0.0.0/8, localhost]",
			"iptables: {localhostNodePorts: false}",
		);
		expect(configOf(inputs({}, { file: given }))).toMatchObject({
			localDetection: {
				mode: "BridgeInterface",
				clusterRanges: ["10.244.0.0/16"],
				bridgeInterface: "cni0",
			},
			nodePortAddresses: { isAll: false, isLocalhost: true, ranges: ["10.0.0.0/8"] },
			localhostNodePorts: false,
		});
	});
});

describe("the conntrack section", () => {
	const conntrackOf = (...lines: string[]) =>
		configOf(inputs({}, { file: file(...lines) })).conntrack;

	it("means what the flags mean", () => {
		expect(
			conntrackOf(
				"conntrack:",
				"  maxPerCore: 1000",
				"  min: 2000",
				"  tcpEstablishedTimeout: 2h",
				"  tcpCloseWaitTimeout: 90s",
				"  tcpBeLiberal: true",
				"  udpTimeout: 40s",
				"  udpStreamTimeout: 3m",
			),
		).toEqual({
			maxPerCore: 1000,
			min: 2000,
			tcpEstablishedS: 7200,
			tcpCloseWaitS: 90,
			tcpBeLiberal: true,
			udpS: 40,
			udpStreamS: 180,
		});
	});

	it("null is the default, 0 is what a rootless node says to leave the kernel alone", () => {
		expect(conntrackOf("conntrack: {maxPerCore: null, tcpEstablishedTimeout: null}")).toEqual(
			configOf(inputs()).conntrack,
		);
		expect(
			conntrackOf("conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s}"),
		).toMatchObject({ maxPerCore: 0, min: 0, tcpEstablishedS: 0 });
	});

	it("gives way to a flag", () => {
		const given = inputs(
			{ "conntrack-min": ["5"] },
			{ file: file("conntrack: {min: 6, maxPerCore: 7}") },
		);
		expect(configOf(given).conntrack).toMatchObject({ min: 5, maxPerCore: 7 });
	});
});

describe("the mode (classic 9.7.5, 9.7.6)", () => {
	it.each(["iptables", "ipvs", "nftables"])("%s is accepted with a note", (mode) => {
		expect(warningsOf(inputs({}, { file: file(`mode: ${mode}`) }))).toEqual([
			`/etc/proxy.yaml: mode ${mode}: this daemon relays in userspace whatever the mode`,
		]);
	});

	it.each(['""', "userspace", "null"])("%s is accepted in silence", (mode) => {
		expect(warningsOf(inputs({}, { file: file(`mode: ${mode}`) }))).toEqual([]);
	});

	it.each(["kernelspace", "ebpf"])("%s is refused", (mode) => {
		expect(problemsOf(inputs({}, { file: file(`mode: ${mode}`) }))).toEqual([
			`/etc/proxy.yaml: mode: wanted one of userspace, iptables, ipvs, nftables or nothing, got "${mode}"`,
		]);
	});
});

describe("unknown fields", () => {
	it("are named, with the nearest known one, and do not stop the rest (classic 9.7.5)", () => {
		const given = file(
			"udpIdleTimout: 1s",
			"iptables: {synchPeriod: 1s}",
			"zzz: 1",
			"portRange: '7'",
		);
		expect(warningsOf(inputs({}, { file: given })).toSorted()).toEqual([
			'/etc/proxy.yaml: unknown field "iptables.synchPeriod" is not used; did you mean iptables.syncPeriod?',
			'/etc/proxy.yaml: unknown field "udpIdleTimout" is not used; did you mean udpIdleTimeout?',
			'/etc/proxy.yaml: unknown field "zzz" is not used',
		]);
		expect(configOf(inputs({}, { file: given })).proxyPortRange?.first).toBe(7);
	});

	it("are not all told where there are thousands", () => {
		const lines = Array.from({ length: 1000 }, (_, index) => `unknown${index}: 1`);
		const warnings = warningsOf(inputs({}, { file: file(...lines) }));
		expect(warnings).toHaveLength(21);
		expect(warnings.at(-1)).toBe("/etc/proxy.yaml: 980 more unknown fields are not used");
	});

	it("may have any name", () => {
		const given = file('"\\e[31m": 1', "__proto__: {mode: x}", "constructor: 1");
		const warnings = warningsOf(inputs({}, { file: given }));
		expect(warnings.join("\n")).toContain('unknown field "\\u001b[31m" is not used');
		expect(warnings.join("\n")).toContain('unknown field "constructor" is not used');
	});
});

it("a field that is there twice counts the last time, with a warning, as in kube-proxy (classic 9.7.5)", () => {
	const given = file("portRange: '7'", "portRange: '8'");
	expect(warningsOf(inputs({}, { file: given }))).toEqual([
		"/etc/proxy.yaml:4: a field twice; the last one counts",
	]);
	expect(configOf(inputs({}, { file: given })).proxyPortRange?.first).toBe(8);
});

describe("files that are refused (classic 9.7.5)", () => {
	const head = file().text;
	it.each([
		["", "f: wanted a KubeProxyConfiguration, got an empty file"],
		["---\n# nothing\n---\n", "f: wanted a KubeProxyConfiguration, got an empty file"],
		["- 1\n", "f: wanted a KubeProxyConfiguration, got a list"],
		["text\n", 'f: wanted a KubeProxyConfiguration, got "text"'],
		[`${head}---\n${head}`, "f: wanted one KubeProxyConfiguration, got 2 documents"],
		["kind: Config\napiVersion: v1\n", 'f: kind: wanted KubeProxyConfiguration, got "Config"'],
		["apiVersion: v1\n", "f: kind: wanted KubeProxyConfiguration, got nothing"],
		[
			"kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1\n",
			'f: apiVersion: wanted kubeproxy.config.k8s.io/v1alpha1, got "kubeproxy.config.k8s.io/v1"',
		],
		[`${head}oomScoreAdj: "5"\n`, 'f: oomScoreAdj: wanted a number, got "5"'],
		[`${head}oomScoreAdj: 5.5\n`, "f: oomScoreAdj: wanted an integer, got 5.5"],
		[
			`${head}bindAddressHardFail: yes\n`,
			'f: bindAddressHardFail: wanted true or false, got "yes"',
		],
		[`${head}portRange: 7\n`, "f: portRange: wanted text, got 7"],
		[`${head}iptables: 7\n`, "f: iptables: wanted a mapping, got 7"],
		[`${head}iptables: {syncPeriod: 30}\n`, "f: iptables.syncPeriod: wanted text, got 30"],
		[
			`${head}conntrack: {udpTimeout: soon}\n`,
			'f: conntrack.udpTimeout: wanted a duration such as 30s, got "soon"',
		],
		[
			`${head}nodePortAddresses: 10.0.0.0/8\n`,
			'f: nodePortAddresses: wanted a list, got "10.0.0.0/8"',
		],
		[
			`${head}logging: {flushFrequency: soon}\n`,
			'f: logging.flushFrequency: wanted a duration such as 30s, got "soon"',
		],
	])("%j", (text, problem) => {
		expect(problemsOf(inputs({}, { file: { path: "f", text } }))).toEqual([problem]);
	});

	it("bad YAML is told with its line", () => {
		const given = { path: "f", text: `${head}mode: "iptables\n` };
		expect(problemsOf(inputs({}, { file: given }))).toEqual([
			expect.stringMatching(/^f:\d+: no YAML: Missing closing "quote$/),
		]);
		const unquoted = { path: "f", text: `${head}bindAddress: ::\n` };
		expect(problemsOf(inputs({}, { file: unquoted }))).toEqual([
			expect.stringMatching(/^f:3: no YAML: /),
		]);
	});

	it("a bomb of aliases and a tower of brackets are refused", () => {
		const bomb = `${head}a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c]\n`;
		expect(problemsOf(inputs({}, { file: { path: "f", text: bomb } }))).toEqual([
			expect.stringContaining("f: cannot be read: "),
		]);
		const tower = { path: "f", text: "[".repeat(50_000) };
		expect(problemsOf(inputs({}, { file: tower })).length).toBeGreaterThan(0);
	});

	it("a mapping where a number or a duration belongs is refused", () => {
		expect(problemsOf(inputs({}, { file: file("logging: {flushFrequency: {}}") }))).toEqual([
			"/etc/proxy.yaml: logging.flushFrequency: wanted a number or a duration such as 5s, got a mapping",
		]);
	});

	it("every problem of the file and of the flags is told at once", () => {
		const given = file("oomScoreAdj: x", "portRange: 7", "mode: ebpf");
		expect(problemsOf(inputs({ rules: ["x"] }, { file: given }))).toHaveLength(4);
	});
});

it("JSON is read as well", () => {
	const text = JSON.stringify({
		apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
		kind: "KubeProxyConfiguration",
		portRange: "7-8",
	});
	expect(configOf(inputs({}, { file: { path: "f", text } })).proxyPortRange?.last).toBe(8);
});

function flow(name: string, value: string): string {
	const [section, field] = name.split(".");
	return field === undefined ? `${section}: ${value}` : `${section}: {${field}: ${value}}`;
}

/** "{mode: ipvs, ipvs: {…}}" as one line a field. */
function flowLines(text: string): string[] {
	const [, first = "", rest = ""] = /^\{(mode: \w+), (.*)\}$/.exec(text) ?? [];
	return [first, rest];
}
