import { ipFamilyOf } from "../services/address.ts";
import type {
	ClusterConfig,
	Config,
	ConntrackConfig,
	ListenAddress,
	LocalDetection,
	LogLevel,
} from "./config.ts";
import { conntrackFlags } from "./conntrack-flags.ts";
import {
	dashed,
	FLAGS,
	type FlagMeaning,
	type FlagName,
	type FlagValue,
	parseFlag,
} from "./flags.ts";
import { type FileValue, readKubeProxyFile } from "./kube-proxy-file.ts";
import { parseListenAddress } from "./listen-address.ts";
import { type ConfigProblem, wanted } from "./problem.ts";
import { nodeName as parseNodeName } from "./values.ts";

/*
 * config/ turns flags, a KubeProxyConfiguration file and the environment into one frozen Config, or
 * into everything that is wrong with them, all at once. A flag that is given wins over the file, the
 * file over the default. One table, flags.ts, says what each text means; the file's fields are given
 * to the same parsers. Nothing here reads the process: what it needs is handed in.
 */

/** Each flag's texts in the order given, without dashes; a switch without a value is "true". */
export type FlagTexts = Readonly<Partial<Record<FlagName, readonly string[]>>>;

export interface ConfigInputs {
	readonly flags: FlagTexts;
	/** What --config names, when it is given. */
	readonly file: { readonly path: string; readonly text: string } | undefined;
	readonly env: Readonly<Record<string, string | undefined>>;
	/** As the kernel has it. */
	readonly hostname: string;
}

export type ConfigResult =
	| {
			readonly config: Config;
			/** What was given and has no effect, one line each. */
			readonly warnings: readonly string[];
	  }
	| { readonly problems: readonly ConfigProblem[] };

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a literal object
const CONNTRACK_FLAGS = Object.keys(conntrackFlags) as readonly (keyof typeof conntrackFlags)[];

/** kube-proxy's -v from which on it tells what debug tells here. */
const DEBUG_VERBOSITY = 4;

/** Never throws, whatever the texts. */
export function resolveConfig({ flags, file, env, hostname }: ConfigInputs): ConfigResult {
	const reading = file === undefined ? undefined : readKubeProxyFile(file.path, file.text);
	const problems: ConfigProblem[] = [];
	if (reading !== undefined && "problems" in reading) problems.push(...reading.problems);
	const fileValues = reading !== undefined && "values" in reading ? reading.values : new Map();
	const values = new Values(flags, fileValues, problems);
	const config = buildConfig(values, env, hostname, problems);
	if (problems.length > 0) return { problems };
	const ofFile = reading !== undefined && "warnings" in reading ? reading.warnings : [];
	const warnings = [...ofFile, ...withoutRules(flags, config), ...withoutWorkers(config)];
	return { config: freeze(config), warnings };
}

function buildConfig(
	values: Values,
	env: ConfigInputs["env"],
	hostname: string,
	problems: ConfigProblem[],
): Config {
	const manifests = [...new Set(values.every("manifests"))];
	const bindAddress = values.get("bind-address");
	const isV6 = ipFamilyOf(bindAddress) === "ipv6";
	const rulesSyncPeriodMs = values.get("iptables-sync-period");
	const rulesMinSyncPeriodMs = values.get("iptables-min-sync-period");
	if (rulesMinSyncPeriodMs > rulesSyncPeriodMs) problems.push(periodsProblem(values));
	// No part of the Config, but judged with the rest.
	for (const name of ["config", "write-config-to", "cleanup"] as const) values.get(name);
	return {
		manifests,
		cluster: clusterOf(values, manifests, env, problems),
		serviceProxyName: values.get("service-proxy-name"),
		nodeName: nodeNameOf(values, env, hostname, problems),
		bindAddress: bindAddress === "0.0.0.0" || bindAddress === "::" ? undefined : bindAddress,
		nodePortAddresses: values.get("nodeport-addresses"),
		localhostNodePorts: values.get("iptables-localhost-nodeports"),
		localDetection: localDetectionOf(values, problems),
		allowedExternalIps: values.get("allow-external-ips"),
		proxyPortRange: values.get("proxy-port-range"),
		rules: values.get("rules"),
		relay: values.get("relay"),
		workers: values.get("workers"),
		rulesSyncPeriodMs,
		rulesMinSyncPeriodMs,
		configSyncPeriodMs: values.get("config-sync-period"),
		dialTimeoutsMs: values.get("dial-timeouts"),
		halfCloseIdleMs: values.get("half-close-timeout"),
		udpIdleMs: values.get("udp-timeout"),
		udpFirstAnswerMs: values.get("udp-first-answer-timeout"),
		maxUdpFlows: values.get("max-udp-flows"),
		conntrack: conntrackOf(values),
		drainRemovedEndpointsMs: values.get("drain-removed-endpoints"),
		drainTimeoutMs: values.get("drain-timeout"),
		healthzBindAddress: listenAddressOf(values, "healthz-bind-address", isV6, "[::]"),
		metricsBindAddress: listenAddressOf(values, "metrics-bind-address", isV6, "[::1]"),
		bindAddressHardFail: values.get("bind-address-hard-fail"),
		oomScoreAdj: values.get("oom-score-adj"),
		logFormat: values.get("log-format"),
		logLevel: logLevelOf(values),
		logConnections: values.get("log-connections"),
	};
}

/** With --rules none the kernel is left alone. Of a file nothing is said: it may be that of all nodes. */
function withoutRules(flags: FlagTexts, { rules }: Config): readonly string[] {
	const given = CONNTRACK_FLAGS.filter((name) => flags[name] !== undefined).map(dashed);
	if (rules !== "none" || given.length === 0) return [];
	return [`without effect with --rules none: ${given.join(", ")}`];
}

/** Where auto finds at the start that there are none, the line that says so names the flag. */
function withoutWorkers({ relay, workers }: Config): readonly string[] {
	if (workers === undefined || relay !== "stream") return [];
	return ["without effect with --relay stream: --workers"];
}

function conntrackOf(values: Values): ConntrackConfig {
	return {
		maxPerCore: values.get("conntrack-max-per-core"),
		min: values.get("conntrack-min"),
		tcpEstablishedS: values.get("conntrack-tcp-timeout-established"),
		tcpCloseWaitS: values.get("conntrack-tcp-timeout-close-wait"),
		tcpBeLiberal: values.get("conntrack-tcp-be-liberal"),
		udpS: values.get("conntrack-udp-timeout"),
		udpStreamS: values.get("conntrack-udp-timeout-stream"),
	};
}

/** What each flag comes to, from the flags, the file or the default. */
class Values {
	readonly #flags: FlagTexts;
	readonly #file: ReadonlyMap<FlagName, FileValue>;
	readonly #problems: ConfigProblem[];

	constructor(flags: FlagTexts, file: ReadonlyMap<FlagName, FileValue>, problems: ConfigProblem[]) {
		this.#flags = flags;
		this.#file = file;
		this.#problems = problems;
	}

	isGiven(name: FlagName): boolean {
		return this.#texts(name).length > 0;
	}

	/** Where the value comes from, for messages. */
	whereIs(name: FlagName): string {
		return this.#flags[name] === undefined && this.#file.has(name)
			? (this.#file.get(name)?.where ?? "")
			: dashed(name);
	}

	/**
	 * The value in effect. One that is wrong is noted and the default taken, so that the rest can be
	 * judged too.
	 */
	get<N extends FlagName>(name: N): FlagValue<N> {
		const fromFile = this.#file.get(name);
		// Judged even when a flag wins: the file is wrong all the same.
		const fileValue = fromFile && this.#read(name, fromFile.where, fromFile.text);
		const values = this.every(name);
		const value = values.at(-1);
		if (value !== undefined || values.length > 0) return value as FlagValue<N>;
		if (fileValue !== undefined && "value" in fileValue) return fileValue.value;
		return this.#default(name);
	}

	/** All values that flags give, the good ones; the file has no list. */
	every<N extends FlagName>(name: N): readonly FlagMeaning<N>[] {
		return (this.#flags[name] ?? [])
			.map((text) => this.#read(name, dashed(name), text))
			.filter((read) => "value" in read)
			.map((read) => read.value);
	}

	#texts(name: FlagName): readonly string[] {
		const given = this.#flags[name];
		if (given !== undefined && given.length > 0) return given;
		const fromFile = this.#file.get(name);
		return fromFile === undefined ? [] : [fromFile.text];
	}

	#read<N extends FlagName>(name: N, where: string, text: string) {
		const parsed = parseFlag(name, text);
		if ("wanted" in parsed) this.#problems.push(wanted(where, parsed.wanted, text));
		return parsed;
	}

	#default<N extends FlagName>(name: N): FlagValue<N> {
		const text: string | undefined = FLAGS[name].default;
		const parsed = text === undefined ? undefined : parseFlag(name, text);
		if (parsed !== undefined && "wanted" in parsed) {
			throw new RangeError(`Cannot use the default of ${dashed(name)}: wanted ${parsed.wanted}`);
		}
		// Undefined only for a flag without a default, whose values include undefined.
		return parsed?.value as FlagValue<N>;
	}
}

function periodsProblem(values: Values): ConfigProblem {
	return {
		where: values.whereIs("iptables-min-sync-period"),
		message: `wanted at most the period of ${values.whereIs("iptables-sync-period")}, got more`,
	};
}

function clusterOf(
	values: Values,
	manifests: readonly string[],
	env: ConfigInputs["env"],
	problems: ConfigProblem[],
): ClusterConfig | undefined {
	const kubeconfig = values.get("kubeconfig");
	const master = values.get("master");
	if (kubeconfig !== undefined || master !== undefined) return { kubeconfig, master };
	// A manifest path that is wrong is a problem of its own: no second one for it.
	if (manifests.length > 0 || values.isGiven("manifests")) return undefined;
	if ((env["KUBERNETES_SERVICE_HOST"] ?? "") === "") {
		problems.push(noSource);
	}
	return { kubeconfig, master };
}

const noSource: ConfigProblem = {
	where: "",
	message:
		"no source of Services: give --manifests PATH, --kubeconfig FILE or --master URL (in-cluster credentials are used where KUBERNETES_SERVICE_HOST is set, and it is not)",
};

/** A mode without what it goes by tells nobody apart, which nobody asks for. */
function localDetectionOf(values: Values, problems: ConfigProblem[]): LocalDetection {
	const detection = {
		mode: values.get("detect-local-mode"),
		clusterRanges: values.get("cluster-cidr"),
		bridgeInterface: values.get("pod-bridge-interface"),
		interfaceNamePrefix: values.get("pod-interface-name-prefix"),
	};
	const missing =
		detection.mode === "BridgeInterface" && detection.bridgeInterface === undefined
			? "pod-bridge-interface"
			: detection.mode === "InterfaceNamePrefix" && detection.interfaceNamePrefix === undefined
				? "pod-interface-name-prefix"
				: undefined;
	// One that is wrong is a problem of its own.
	if (missing !== undefined && !values.isGiven(missing)) {
		const where = values.whereIs("detect-local-mode");
		problems.push({ where, message: `${detection.mode} wants --${missing}, got none` });
	}
	return detection;
}

function nodeNameOf(
	values: Values,
	env: ConfigInputs["env"],
	hostname: string,
	problems: ConfigProblem[],
): string {
	const override = values.get("hostname-override");
	if (override !== undefined) return override;
	const fromEnv = env["NODE_NAME"]?.trim() ?? "";
	const [where, text] = fromEnv === "" ? ["host name", hostname] : ["NODE_NAME", fromEnv];
	const parsed = parseNodeName(text);
	if ("value" in parsed && parsed.value !== undefined) return parsed.value;
	const what = "wanted" in parsed ? parsed.wanted : "a node name";
	problems.push(wanted(`${where} (or give --hostname-override)`, what, text));
	return "";
}

/** Without an address of its own, it is the default's counterpart in the family of --bind-address. */
function listenAddressOf(
	values: Values,
	name: "healthz-bind-address" | "metrics-bind-address",
	isV6: boolean,
	defaultV6: string,
): ListenAddress | undefined {
	const listen = values.get(name);
	if (!isV6 || listen === undefined || values.isGiven(name)) return listen;
	return parseListenAddress(defaultV6, listen.port);
}

function logLevelOf(values: Values): LogLevel {
	const level = values.get("log-level");
	const verbosity = values.get("v");
	if (values.isGiven("log-level")) return level;
	return verbosity >= DEBUG_VERBOSITY ? "debug" : level;
}

function freeze(config: Config): Config {
	Object.freeze(config.manifests);
	Object.freeze(config.cluster);
	Object.freeze(config.proxyPortRange);
	Object.freeze(config.dialTimeoutsMs);
	Object.freeze(config.conntrack);
	Object.freeze(config.nodePortAddresses);
	Object.freeze(config.nodePortAddresses.ranges);
	Object.freeze(config.localDetection);
	Object.freeze(config.localDetection.clusterRanges);
	Object.freeze(config.allowedExternalIps);
	Object.freeze(config.healthzBindAddress);
	Object.freeze(config.metricsBindAddress);
	return Object.freeze(config);
}
