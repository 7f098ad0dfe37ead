import type { Command } from "commander";
import { FLAG_NAMES, type FlagName } from "../config/flags.ts";
import { loadConfig } from "../config/load.ts";
import { type ConfigProblem, wanted } from "../config/problem.ts";
import type { FlagTexts } from "../config/resolve.ts";
import { IP_FAMILIES } from "../services/address.ts";
import { checkCommand } from "./check.ts";
import { cleanupCommand, cleanupKubeProxyCommand } from "./cleanup.ts";
import { EXIT_FAILED } from "./exit-codes.ts";
import { addFlags } from "./flag-options.ts";
import type { Host } from "./host.ts";
import {
	abortOnInterrupt,
	addCommand,
	judged,
	type SetStatus,
	straysOf,
} from "./judged-command.ts";
import { planCommand } from "./plan.ts";
import { complain } from "./report.ts";
import { runCommand } from "./run.ts";

/** Those that a plan depends on: `plan` takes no flag that would change nothing. */
const PLAN_FLAGS = [
	"manifests",
	"kubeconfig",
	"master",
	"service-proxy-name",
	"config",
	"hostname-override",
	"bind-address",
	"nodeport-addresses",
	"iptables-localhost-nodeports",
	"cluster-cidr",
	"detect-local-mode",
	"pod-bridge-interface",
	"pod-interface-name-prefix",
	"allow-external-ips",
	"proxy-port-range",
	"rules",
] as const satisfies readonly FlagName[];

/** Those of `run` that do something else than run. */
const ACTIONS: ReadonlySet<FlagName> = new Set(["cleanup", "write-config-to"]);

export function addRun(program: Command, host: Host, setStatus: SetStatus): void {
	const { command, given } = addCommand(
		program,
		"run",
		"the daemon: relay what goes to Services until told to stop",
	);
	addFlags(command, FLAG_NAMES, given);
	command.addHelpText("after", RUN_NOTES).action(async () => {
		const strays = straysOf(command);
		// Together with the strays, so that nobody has to try twice.
		const problems = strays.length === 0 ? [] : [...strays, ...problemsOfFlags(host, given)];
		setStatus(await judged(host, problems, () => runCommand(host, given)));
	});
}

const RUN_NOTES = `
A duration is written as 250ms, 30s, 1m30s or 1h. Flags win over the --config file.

Signals: SIGTERM and SIGINT stop (a second one without waiting), SIGHUP reads configuration and sources
again, SIGUSR1 and SIGUSR2 log more and fewer connections.
Exit status: 0 after a graceful stop, 1 failed or packet rules are left, 2 wrong usage or configuration.`;

export function addCleanup(program: Command, host: Host, setStatus: SetStatus): void {
	const { command } = addCommand(
		program,
		"cleanup",
		"remove every rule and chain that any version of this program makes",
	);
	command
		.option("--kube-proxy", "instead, what a kube-proxy in another mode left; nothing of ours")
		.action(async ({ kubeProxy = false }: { readonly kubeProxy?: boolean }) => {
			const work = kubeProxy ? cleanupKubeProxyCommand : cleanupCommand;
			setStatus(await judged(host, straysOf(command), () => work(host)));
		});
}

export function addCheck(program: Command, host: Host, setStatus: SetStatus): void {
	const { command, given } = addCommand(
		program,
		"check",
		"look at this host: what is fine, and what to do about what is not",
	);
	addFlags(
		command,
		FLAG_NAMES.filter((name) => !ACTIONS.has(name)),
		given,
	);
	command
		.addHelpText(
			"after",
			"\nGive it the flags that run is to have. Exit status 1: it cannot run here.",
		)
		.action(async () => {
			const result = loadConfig({ flags: given, env: host.env, hostname: host.hostname });
			const problems = [...straysOf(command), ...("problems" in result ? result.problems : [])];
			const signal = abortOnInterrupt(host);
			setStatus(
				await judged(host, problems, async () =>
					"config" in result
						? await checkCommand(host, result.config, result.warnings, signal)
						: EXIT_FAILED,
				),
			);
		});
}

export function addPlan(program: Command, host: Host, setStatus: SetStatus): void {
	const { command, given } = addCommand(
		program,
		"plan",
		"print the packet rules that run would apply, and exit",
	);
	addFlags(command, PLAN_FLAGS, given);
	command
		.optionsGroup("Output:")
		.option("--family <FAMILY>", "only the rules of this family: ipv4 or ipv6")
		.addHelpText("after", "\nProxy ports are assumed; nothing is changed and no root is needed.")
		.action(async ({ family }: { readonly family?: string }) => {
			const result = loadConfig({ flags: given, env: host.env, hostname: host.hostname });
			const families = IP_FAMILIES.filter((each) => family === undefined || each === family);
			const problems = [
				...straysOf(command),
				...("problems" in result ? result.problems : []),
				...(families.length === 0 ? [wanted("--family", "ipv4 or ipv6", family)] : []),
			];
			setStatus(
				await judged(host, problems, async () => {
					if (!("config" in result)) return EXIT_FAILED;
					for (const warning of result.warnings) complain(host, `warning: ${warning}`);
					return await planCommand(host, result.config, families, abortOnInterrupt(host));
				}),
			);
		});
}

/** What is wrong with flags as far as it can be told without doing anything. */
function problemsOfFlags(host: Host, given: FlagTexts): readonly ConfigProblem[] {
	const result = loadConfig({ flags: given, env: host.env, hostname: host.hostname });
	return "problems" in result ? result.problems : [];
}
