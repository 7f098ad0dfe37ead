/**
 * Flags that a kube-proxy command line may hold and that mean nothing here, or not yet: each with its
 * own sentence, so that nobody has to guess whether it was a typing mistake.
 */
const SENTENCES: readonly (readonly [pattern: RegExp, sentence: string])[] = [
	[/^proxy-mode$/, "there is one mode here: this daemon relays in userspace"],
	[
		/^(masquerade-all|iptables-masquerade-bit)$/,
		"not needed: what is relayed comes from the node's own address without masquerading",
	],
	[
		/^ipvs-scheduler$/,
		"not there yet: endpoints are taken in turn (round robin), those that failed lately last",
	],
	[/^ipvs-/, "this daemon does not use IPVS"],
	[
		/^cleanup-ipvs$/,
		"this daemon makes no IPVS rules; kube-userproxy cleanup --kube-proxy tells what is left of kube-proxy's",
	],
	[
		/^conntrack-max$/,
		"gone from kube-proxy too; use --conntrack-max-per-core NUMBER and --conntrack-min NUMBER",
	],
	[
		/^kube-api-(qps|burst|content-type)$/,
		"not needed: there is one watch per kind of object, in JSON, with waits of its own",
	],
	[/^healthz-port$/, "gone from kube-proxy too; use --healthz-bind-address IP:PORT"],
	[/^metrics-port$/, "gone from kube-proxy too; use --metrics-bind-address IP:PORT"],
	[/^feature-gates$/, "there are no feature gates here"],
	[/^(profiling|show-hidden-metrics-for-version)$/, "kube-proxy's; there is nothing like it here"],
	[
		/^init-only$/,
		"not needed: what of the host's settings may not be changed is told, and it runs",
	],
	[/^logging-format$/, "use --log-format json or pretty"],
	[
		/^(vmodule|logtostderr|alsologtostderr|stderrthreshold|log-dir|log-file|log-file-max-size|log-flush-frequency|log-backtrace-at|one-output|skip-headers|skip-log-headers|add-dir-header|log-(text|json)-.*)$/,
		"the log goes to standard output, line by line; see --log-format and --log-level",
	],
];

/** @param name without dashes. */
export function foreignFlagSentence(name: string): string | undefined {
	const folded = name.replaceAll("_", "-");
	return SENTENCES.find(([pattern]) => pattern.test(folded))?.[1];
}
