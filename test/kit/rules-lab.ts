import { type CommandRunner, createCommandRunner } from "../../src/rules/command-runner.ts";
import { findTools, type HostLook } from "../../src/rules/find-tools.ts";
import { createRuleKeeper, type RuleKeeper } from "../../src/rules/rule-keeper.ts";
import type { RunOptions } from "../../src/rules/run-options.ts";
import { type ChosenVariant, chooseVariant } from "../../src/rules/variant.ts";
import type { Variant } from "../../src/rules/xtables.ts";
import type { IpFamily } from "../../src/services/address.ts";
import { createLab, type Lab, labProblem } from "./lab.ts";
import { runCommandSync } from "./lab-command.ts";

/** A lab without endpoints, and what is needed to keep rules on its node. */
export interface RulesLab {
	readonly lab: Lab;
	/** Runs every command on the lab's node. */
	readonly runner: CommandRunner;
	readonly look: HostLook;
	/** A keeper as the daemon makes one, on `runner` or on one that wraps it. */
	keeper(runner?: CommandRunner): Promise<RuleKeeper>;
	choose(): Promise<ChosenVariant>;
	/** `iptables -t nat -A ...` on the node, in the lab's variant. */
	iptables(args: string, family?: IpFamily): Promise<string>;
	/** All rules of a family, in the lab's variant. */
	save(family?: IpFamily): Promise<string>;
}

export const never: AbortSignal = new AbortController().signal;

/**
 * Builds a lab whose node uses one variant of iptables: a rule of the "host" is there before us, which is
 * also what makes chooseVariant() take that variant.
 */
export async function createRulesLab(variant: Variant): Promise<RulesLab> {
	const lab = await createLab({ endpoints: 0 });
	const runner = inNamespace(lab.node.name);
	const look: HostLook = {
		runner: rememberingVersions(runner),
		signal: never,
		readTextFile: async (path) => {
			const { exitCode, stdout } = await lab.node.exec("cat", [path], { mayFail: true });
			return exitCode === 0 ? stdout : undefined;
		},
	};
	const choose = async () => chooseVariant(await findTools(look));
	const iptables = async (args: string, family: IpFamily = "ipv4") => {
		const file = `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}`;
		return (await lab.node.exec(file, args.split(" "))).stdout;
	};
	const save = async (family: IpFamily = "ipv4") => {
		const file = `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}-save`;
		return (await lab.node.exec(file, [])).stdout;
	};
	await iptables("-A INPUT -i lo -j ACCEPT");
	if (lab.ipv6) await iptables("-A INPUT -i lo -j ACCEPT", "ipv6");
	return {
		lab,
		runner,
		look,
		choose,
		iptables,
		save,
		keeper: async (own = runner) => createRuleKeeper(await choose(), own),
	};
}

/** Takes away what tests left, and says what of ours was still there in either variant. */
export async function sweepRules({ lab, look }: RulesLab): Promise<readonly string[]> {
	const { found } = await findTools(look);
	const left: string[] = [];
	for (const { tools, saved } of found) {
		if (saved instanceof Error) throw saved;
		const { tables } = saved;
		for (const chain of [...tables.filter.own.keys(), ...tables.nat.own.keys()]) {
			left.push(`${tools.family} ${tools.variant} ${chain}`);
		}
	}
	await lab.node.exec("conntrack", ["-F"], { mayFail: true });
	return left;
}

/** Why these tests cannot run with a variant and family here; undefined: they can. */
export function rulesLabProblem(variant: Variant, family: IpFamily = "ipv4"): string | undefined {
	const problem = labProblem();
	if (problem !== undefined) return problem;
	const file = `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}`;
	const tried = runCommandSync("unshare", ["--net", file, "-t", "nat", "-S"]);
	return tried.exitCode === 0 ? undefined : `${file}: ${tried.stderr.trim()}`;
}

function inNamespace(name: string): CommandRunner {
	const inner = createCommandRunner({ env: process.env });
	return {
		run: (file: string, args: readonly string[], options: RunOptions) =>
			inner.run("ip", ["netns", "exec", name, file, ...args], options),
	};
}

/** Programs do not change while tests run, and each look at the host asks six of them. */
function rememberingVersions(inner: CommandRunner): CommandRunner {
	const versions = new Map<string, ReturnType<CommandRunner["run"]>>();
	return {
		run: (file, args, options) => {
			if (args.join() !== "--version") return inner.run(file, args, options);
			const asked = versions.get(file) ?? inner.run(file, args, options);
			versions.set(file, asked);
			return asked;
		},
	};
}
