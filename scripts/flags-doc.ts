// Why: what the documents say of the flags is made from the table that the program reads.
// How: `node scripts/flags-doc.ts > docs/flags.md`; with --table only the tables, for the README.
import { FLAG_GROUPS, type FlagSpec } from "../src/config/flag-spec.ts";
import { dashed, FLAG_NAMES, FLAGS, type FlagName } from "../src/config/flags.ts";
import { type FieldRule, KUBE_PROXY_FIELDS } from "../src/config/kube-proxy-fields.ts";

/** Markdown tables of `run`'s flags, one per group; docs/flags.md and the README are made of it. */
export function flagsTable(): string {
	return FLAG_GROUPS.map((group) => groupTable(group)).join("\n");
}

function groupTable(group: FlagSpec<unknown>["group"]): string {
	const rows = FLAG_NAMES.filter((name) => FLAGS[name].group === group).map(row);
	const head = [
		`### ${group}`,
		"",
		"| Flag | Default | What | kube-proxy's field |",
		"|---|---|---|---|",
	];
	return [...head, ...rows, ""].join("\n");
}

function row(name: FlagName): string {
	const spec: FlagSpec<unknown> = FLAGS[name];
	const value = spec.placeholder === undefined ? "" : ` ${spec.placeholder}`;
	const cells = [
		`\`${dashed(name)}${value}\``,
		shownDefault(spec.default),
		spec.help,
		fieldsOf(name, spec.kubeProxy),
	];
	return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function shownDefault(text: string | undefined): string {
	return text === undefined || text === "" ? "–" : `\`${text}\``;
}

/** Fields of the configuration file with the same meaning; "–": kube-proxy has the flag alone. */
function fieldsOf(name: FlagName, isKubeProxys: boolean): string {
	const fields = Object.entries(KUBE_PROXY_FIELDS)
		.filter(([, rule]) => rule.use === "flag" && rule.flag === name)
		.map(([field, rule]) => {
			const modes = rule.use === "flag" ? (rule.modes ?? []).filter((mode) => mode !== "") : [];
			return modes.length === 0 ? `\`${field}\`` : `\`${field}\` (${modes.join(", ")})`;
		});
	if (fields.length > 0) return fields.join(", ");
	return isKubeProxys ? "–" : "(flag of this daemon only)";
}

/** The whole of docs/flags.md. */
export function flagsDocument(): string {
	return `${INTRODUCTION}
${flagsTable()}
${FILE_SECTION}`;
}

const INTRODUCTION = `<!-- Made by \`node scripts/flags-doc.ts > docs/flags.md\`; a test compares. -->

# Flags of \`kube-userproxy run\`

A flag that kube-proxy has carries kube-proxy's name and meaning. A duration is written as Go does (\`250ms\`, \`1m30s\`, \`1h\`),
at most 596h. A value comes after a blank or a \`=\`; of a flag that is given twice the last one counts, unless it may be given
several times. A flag that is unknown, or whose value is wrong, ends the program with exit status 2; every problem is told at once.

\`check\` takes the same flags and judges them; \`plan\` takes those that have an influence on the rules.

Exit status: 0 fine (\`run\`: after a graceful stop), 1 failed (and \`run\` where a stop leaves packet rules), 2 wrong usage or
configuration. kube-proxy has 1 and 255 for the last two.
`;

const FILE_SECTION = `## The configuration file

\`--config FILE\` reads kube-proxy's own KubeProxyConfiguration (\`kubeproxy.config.k8s.io/v1alpha1\`, YAML or JSON, as a file of its own).
Unlike kube-proxy, **a flag that is given wins over the file**. Empty, \`0s\` and \`null\` mean the default, as in kube-proxy; of
\`conntrack\` only \`null\` does, and \`0\` leaves the kernel's setting alone. Types are checked strictly; an unknown field is told in a warning and not used. SIGHUP reads flags and file again: the log level, the connection log
and the drain timeout change at once, the rest is named in the log and waits for a restart.

- \`mode\` may be empty or \`userspace\`; \`iptables\`, \`ipvs\` and \`nftables\` are taken with a note, since this daemon relays in userspace
  whatever the mode. The mode says which section's periods are read, as in kube-proxy.
- \`logging.format: json\` is \`--log-format json\`.
- Without effect, and named in one warning if set to anything but kube-proxy's default: ${ignoredFields()}.

\`--write-config-to FILE\` writes what is in effect in this form. What has no field there is in the file's last comment as flags.
`;

function ignoredFields(): string {
	return fieldNames((use) => use === "ignored");
}

function fieldNames(chosen: (use: FieldRule["use"]) => boolean): string {
	return Object.entries(KUBE_PROXY_FIELDS)
		.filter(([, rule]) => chosen(rule.use))
		.map(([field]) => `\`${field}\``)
		.join(", ");
}

if (import.meta.main) {
	process.stdout.write(process.argv.includes("--table") ? flagsTable() : flagsDocument());
}
