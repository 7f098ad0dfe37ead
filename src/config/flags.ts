import { conntrackFlags } from "./conntrack-flags.ts";
import { type FlagSpec, flag } from "./flag-spec.ts";
import {
	allowedRanges,
	detectLocalMode,
	interfaceName,
	nodePortAddresses,
	ranges,
} from "./network-values.ts";
import {
	bindAddress,
	duration,
	durations,
	integer,
	integerOrEmpty,
	labelValue,
	listenAddress,
	nodeName,
	oneOf,
	type Parsed,
	path,
	portRange,
	requiredPath,
	serverUrl,
	truth,
	type ValueParser,
	verbosity,
} from "./values.ts";

/**
 * The one table of `run`'s flags: the parser, the help, docs/flags.md and the configuration file
 * all read it. A flag that kube-proxy has carries kube-proxy's name and meaning.
 */

const sourceFlags = {
	manifests: flag({
		group: "Where Services come from",
		placeholder: "PATH",
		repeatable: true,
		help: "file or folder with Service and EndpointSlice manifests, watched; may be given several times; no cluster is needed then",
		parse: requiredPath,
	}),
	kubeconfig: flag({
		group: "Where Services come from",
		kubeProxy: true,
		placeholder: "FILE",
		default: "",
		help: "kubeconfig of the cluster; without it, and without --master and --manifests, the in-cluster credentials are used",
		parse: path,
	}),
	master: flag({
		group: "Where Services come from",
		kubeProxy: true,
		placeholder: "URL",
		default: "",
		help: "address of the API server, in place of the kubeconfig's",
		parse: serverUrl,
	}),
	"service-proxy-name": flag({
		group: "Where Services come from",
		placeholder: "NAME",
		help: "serve only Services labelled service.kubernetes.io/service-proxy-name=NAME, beside the node's kube-proxy; without it, only Services without that label",
		parse: labelValue,
	}),
	"config-sync-period": flag({
		group: "Where Services come from",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "15m",
		help: "the whole state is handed to the proxies again this often",
		parse: duration(1, "15m"),
	}),
	config: flag({
		group: "Where Services come from",
		kubeProxy: true,
		placeholder: "FILE",
		default: "",
		help: "KubeProxyConfiguration file (kubeproxy.config.k8s.io/v1alpha1); a flag that is given wins over the file",
		parse: path,
	}),
};

const nodeFlags = {
	"hostname-override": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "NAME",
		default: "",
		help: "name of this node in the cluster; without it NODE_NAME from the environment, else the host name, in lower case",
		parse: nodeName,
	}),
	"bind-address": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "IP",
		default: "0.0.0.0",
		help: "where proxy listeners bind; 0.0.0.0 or :: is every address of both families",
		parse: bindAddress,
	}),
	"nodeport-addresses": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "LIST",
		default: "",
		help: "node ports are served on the node's addresses in these ranges; also primary (the address that the cluster knows), localhost and all; empty: all. A family without a range has all of its addresses",
		parse: nodePortAddresses,
	}),
	"iptables-localhost-nodeports": flag({
		group: "This node",
		kubeProxy: true,
		default: "true",
		help: "node ports are served on loopback addresses too, where --nodeport-addresses does not say otherwise",
		parse: truth,
	}),
	"cluster-cidr": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "RANGES",
		default: "",
		help: "addresses of the cluster's Pods: with externalTrafficPolicy Local their traffic need not stay on the node",
		parse: ranges,
	}),
	"detect-local-mode": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "MODE",
		default: "",
		help: "how Pods are known for that: ClusterCIDR (--cluster-cidr), NodeCIDR (the Node's podCIDRs), BridgeInterface or InterfaceNamePrefix; empty: ClusterCIDR",
		parse: detectLocalMode,
	}),
	"pod-bridge-interface": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "NAME",
		default: "",
		help: "the bridge that Pods are behind, for --detect-local-mode BridgeInterface",
		parse: interfaceName(0),
	}),
	"pod-interface-name-prefix": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "PREFIX",
		default: "",
		help: "how the names of Pods' interfaces begin, for --detect-local-mode InterfaceNamePrefix",
		parse: interfaceName(1),
	}),
	"allow-external-ips": flag({
		group: "This node",
		placeholder: "RANGES",
		default: "",
		help: "externalIPs outside of these ranges are not served; none: no externalIPs at all; empty: all are, as in kube-proxy (CVE-2020-8554: whoever may write a Service may then take any address)",
		parse: allowedRanges,
	}),
	"oom-score-adj": flag({
		group: "This node",
		kubeProxy: true,
		placeholder: "NUMBER",
		default: "-999",
		help: "written to /proc/self/oom_score_adj, -1000 to 1000; empty leaves it alone",
		parse: integerOrEmpty(-1000, 1000),
	}),
};

const relayFlags = {
	relay: flag({
		group: "Relaying",
		placeholder: "ENGINE",
		default: "auto",
		help: "what moves the bytes: syscall (worker threads and Linux system calls), stream (one thread, wherever Node runs), or auto: syscall where it works, else stream",
		parse: oneOf("auto", "stream", "syscall"),
	}),
	workers: flag({
		group: "Relaying",
		placeholder: "NUMBER",
		default: "",
		help: "worker threads, where system calls move the bytes, 1 to 16; empty: as many as processors, at most 4",
		parse: integerOrEmpty(1, 16),
	}),
	"proxy-port-range": flag({
		group: "Relaying",
		kubeProxy: true,
		placeholder: "PORTS",
		default: "",
		help: "proxy ports as N, FIRST-LAST or FIRST+COUNT, ends included; empty or 0: the kernel chooses",
		parse: portRange,
	}),
	"dial-timeouts": flag({
		group: "Relaying",
		placeholder: "LIST",
		default: "250ms,500ms,1s,2s",
		help: "how long each attempt to reach an endpoint may take; as many attempts as durations, at most 16",
		parse: durations,
	}),
	"half-close-timeout": flag({
		group: "Relaying",
		placeholder: "DURATION",
		default: "15m",
		help: "a TCP connection with one direction ended may be silent this long",
		parse: duration(1, "15m"),
	}),
	"udp-timeout": flag({
		group: "Relaying",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "30s",
		help: "a UDP flow without datagrams ends after this (as in the kernel's own tracking; the classic proxy had 250ms)",
		parse: duration(1, "30s"),
	}),
	"udp-first-answer-timeout": flag({
		group: "Relaying",
		placeholder: "DURATION",
		default: "5s",
		help: "a UDP flow that has had no answer yet is kept at least this long",
		parse: duration(0, "5s"),
	}),
	"max-udp-flows": flag({
		group: "Relaying",
		placeholder: "NUMBER",
		default: "16384",
		help: "UDP flows kept at once, over all Services, 1 to 1000000; the least recently used one makes room",
		parse: integer(1, 1_000_000),
	}),
	"drain-removed-endpoints": flag({
		group: "Relaying",
		placeholder: "DURATION",
		default: "0s",
		help: "TCP connections to an endpoint that was removed from its Service are ended after this; 0: they go on until they end",
		parse: duration(0, "5m"),
	}),
	"drain-timeout": flag({
		group: "Relaying",
		placeholder: "DURATION",
		default: "30s",
		help: "existing connections get this long when the daemon is told to stop",
		parse: duration(0, "30s"),
	}),
};

const rulesFlags = {
	rules: flag({
		group: "Packet rules",
		placeholder: "BACKEND",
		default: "auto",
		help: "what captures the Services' addresses: auto, iptables, or none (proxy ports only; the kernel is left as it is)",
		parse: oneOf("auto", "iptables", "none"),
	}),
	"iptables-sync-period": flag({
		group: "Packet rules",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "30s",
		help: "rules that somebody else changed are found and put right within this time",
		parse: duration(1, "30s"),
	}),
	"iptables-min-sync-period": flag({
		group: "Packet rules",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "1s",
		help: "rules are not applied more often than this; 0: no limit",
		parse: duration(0, "1s"),
	}),
};

const observeFlags = {
	"log-connections": flag({
		group: "Logs and status",
		placeholder: "WHICH",
		default: "off",
		help: "one log record per connection: off, errors or all; SIGUSR1 and SIGUSR2 change it while the daemon runs",
		parse: oneOf("off", "errors", "all"),
	}),
	"log-format": flag({
		group: "Logs and status",
		placeholder: "FORMAT",
		default: "json",
		help: "json, or pretty for people",
		parse: oneOf("json", "pretty"),
	}),
	"log-level": flag({
		group: "Logs and status",
		placeholder: "LEVEL",
		default: "info",
		help: "error, warn, info or debug",
		parse: oneOf("error", "warn", "info", "debug"),
	}),
	v: flag({
		group: "Logs and status",
		kubeProxy: true,
		placeholder: "NUMBER",
		default: "0",
		help: "kube-proxy's verbosity: 0 to 3 is --log-level info, 4 and more debug; --log-level wins",
		parse: verbosity,
	}),
	"healthz-bind-address": flag({
		group: "Logs and status",
		kubeProxy: true,
		placeholder: "IP:PORT",
		default: "0.0.0.0:10256",
		help: "where /healthz, /livez and /readyz are served ([::]:10256 where --bind-address is IPv6); empty: nowhere",
		parse: listenAddress(10256),
	}),
	"metrics-bind-address": flag({
		group: "Logs and status",
		kubeProxy: true,
		placeholder: "IP:PORT",
		default: "127.0.0.1:10249",
		help: "where /metrics and the status are served ([::1]:10249 where --bind-address is IPv6); empty: nowhere",
		parse: listenAddress(10249),
	}),
	"bind-address-hard-fail": flag({
		group: "Logs and status",
		kubeProxy: true,
		default: "false",
		help: "a health or metrics address that cannot be bound ends the daemon; otherwise it is tried again",
		parse: truth,
	}),
};

const actionFlags = {
	cleanup: flag({
		group: "Instead of running",
		kubeProxy: true,
		default: "false",
		help: "remove every rule and chain that this program makes and exit; the same as the cleanup command",
		parse: truth,
	}),
	"write-config-to": flag({
		group: "Instead of running",
		kubeProxy: true,
		placeholder: "FILE",
		default: "",
		help: "write what is in effect as a KubeProxyConfiguration file and exit; what has no field there is in its comments as flags",
		parse: path,
	}),
};

export const FLAGS = {
	...sourceFlags,
	...nodeFlags,
	...relayFlags,
	...rulesFlags,
	...conntrackFlags,
	...observeFlags,
	...actionFlags,
} as const satisfies Record<string, FlagSpec<unknown>>;

/** "udp-timeout": without the dashes. */
export type FlagName = keyof typeof FLAGS;

type ParsedBy<P> = P extends ValueParser<infer T> ? T : never;

/** What a text given for a flag means. */
export type FlagMeaning<N extends FlagName> = ParsedBy<(typeof FLAGS)[N]["parse"]>;

/** What a flag comes to; undefined too where it has no default and was not given. */
export type FlagValue<N extends FlagName> =
	| FlagMeaning<N>
	| ((typeof FLAGS)[N]["default"] extends string ? never : undefined);

/** In the order of the help. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a literal object
export const FLAG_NAMES = Object.keys(FLAGS) as readonly FlagName[];

export function isFlagName(name: string): name is FlagName {
	return Object.hasOwn(FLAGS, name);
}

/** Reads the text of a flag. */
export function parseFlag<N extends FlagName>(name: N, text: string): Parsed<FlagMeaning<N>> {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- N ties the parser to its value
	return FLAGS[name].parse(text) as Parsed<FlagMeaning<N>>;
}

/** "--udp-timeout", "-v": as one types it. */
export function dashed(name: FlagName): string {
	return name.length === 1 ? `-${name}` : `--${name}`;
}
