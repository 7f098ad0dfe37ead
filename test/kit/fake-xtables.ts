import { CommandError } from "../../src/rules/command-error.ts";
import type { CommandRunner } from "../../src/rules/command-runner.ts";
import type { CommandOutput, RunOptions } from "../../src/rules/run-options.ts";
import { ruleWords } from "../../src/rules/saved-rules.ts";

type Chains = Map<string, string[]>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
	filter: ["INPUT", "FORWARD", "OUTPUT"],
	nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
	mangle: ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
};

/**
 * One family's tables in memory, obeying the rules of the kernel that matter to us: a table is
 * committed whole or not at all and tables one after the other, unknown chains and rules to delete
 * that are not there are refused with their line, a chain in use is not deleted.
 *
 * The listing differs from what was put in (the comment is moved), as that of iptables does.
 */
export class FakeTables {
	readonly #tables = new Map<string, Chains>();

	/** @throws {CommandError} as iptables-restore fails. */
	restore(text: string): void {
		let name = "";
		let draft: Chains = new Map();
		for (const [index, line] of text.split("\n").entries()) {
			const refuse = (why: string) => {
				const stderr = `iptables-restore: line ${index + 1} failed: ${why}`;
				throw new CommandError("COMMAND_FAILED", {
					file: "iptables-restore",
					exitStatus: 1,
					stderr,
				});
			};
			if (line === "" || line.startsWith("#")) continue;
			if (line.startsWith("*")) {
				name = line.slice(1);
				draft = new Map([...this.chains(name)].map(([chain, rules]) => [chain, [...rules]]));
			} else if (line.startsWith(":")) {
				draft.set(line.slice(1, line.indexOf(" ")), []);
			} else if (line === "COMMIT") {
				this.#tables.set(name, draft);
			} else {
				edit(draft, line, refuse);
			}
		}
	}

	save(): string {
		return [...this.#tables]
			.flatMap(([name, chains]) => [
				`*${name}`,
				...[...chains.keys()].map(
					(chain) => `:${chain} ${isBuiltIn(name, chain) ? "ACCEPT" : "-"} [0:0]`,
				),
				...[...chains].flatMap(([chain, rules]) => rules.map((rule) => `-A ${chain} ${rule}`)),
				"COMMIT",
				"",
			])
			.join("\n");
	}

	/** The chains of one table, to look at or to meddle with; rules without "-A CHAIN". */
	chains(name: string): Chains {
		const chains = this.#tables.get(name);
		if (chains !== undefined) return chains;
		const fresh: Chains = new Map((BUILT_IN[name] ?? []).map((chain) => [chain, []]));
		this.#tables.set(name, fresh);
		return fresh;
	}

	/** Everything gone, as after `nft flush ruleset`. */
	flush(): void {
		this.#tables.clear();
	}
}

/** Runs nothing: answers as the programs of a host with one variant of iptables for both families. */
export class FakeXtables implements CommandRunner {
	readonly ipv4 = new FakeTables();
	readonly ipv6 = new FakeTables();
	/** What conntrack lists, all families. */
	conntrack: readonly string[] = [];
	/** Every command in order: "iptables-nft-save". */
	readonly ran: string[] = [];
	/** Input of the conntrack calls that delete. */
	readonly deletions: string[] = [];
	/** Thrown before a command runs, where it returns an error. */
	failBefore: (command: string, input: string) => Error | undefined = () => undefined;
	/** As an iptables-save that lies: it ends with status 0 and has listed nothing. */
	listsNothing = false;
	/** Commands for which this is true do not end before they are canceled. */
	hangs: (command: string) => boolean = () => false;
	/** Called before a command runs: somebody else's work at that moment. */
	meddle: (command: string) => void = () => {};

	async run(file: string, args: readonly string[], options: RunOptions): Promise<CommandOutput> {
		await Promise.resolve();
		const command = [file, ...args].join(" ");
		const input = options.input ?? "";
		this.ran.push(command);
		if (options.signal.aborted) throw new CommandError("COMMAND_CANCELED", { file });
		this.meddle(command);
		if (this.hangs(command)) await canceled(file, options.signal);
		const failure = this.failBefore(command, input);
		if (failure !== undefined) throw failure;
		const stdout = this.#answer(file, args, input);
		if (options.onLine === undefined) return { stdout, stderr: "" };
		for (const line of stdout.split("\n")) options.onLine(line);
		return { stdout: "", stderr: "" };
	}

	#answer(file: string, args: readonly string[], input: string): string {
		if (file === "conntrack") return this.#conntrack(args, input);
		const [, program, variant, action] =
			/^(ip6?tables)(?:-(nft))?(?:-(save|restore))?$/.exec(file) ?? [];
		if (program === undefined || (variant === undefined && action !== undefined)) {
			throw new CommandError("COMMAND_NOT_INSTALLED", { file });
		}
		if (args.includes("--version")) return `${program} v1.8.9 (nf_tables)\n`;
		const tables = program === "iptables" ? this.ipv4 : this.ipv6;
		if (action === "save") return this.listsNothing ? "" : tables.save();
		if (action === "restore") tables.restore(input);
		return "";
	}

	#conntrack(args: readonly string[], input: string): string {
		if (args[0] === "-L") return this.conntrack.join("\n");
		this.deletions.push(args[0] === "-R" ? input : args.join(" "));
		return "";
	}
}

/** Rejects when the signal aborts. */
function canceled(file: string, signal: AbortSignal): Promise<never> {
	return new Promise((_, reject) => {
		const end = () => reject(new CommandError("COMMAND_CANCELED", { file }));
		signal.addEventListener("abort", end, { once: true });
	});
}

function edit(chains: Chains, line: string, refuse: (why: string) => void): void {
	const [command = "", chain = "", ...rest] = line.split(" ");
	const rules = chains.get(chain);
	if (rules === undefined) {
		refuse("No chain/target/match by that name.");
		return;
	}
	const spec = rest.join(" ");
	if (command === "-A") rules.push(listed(spec));
	else if (command === "-I") rules.unshift(listed(spec.replace(/^1 /, "")));
	else if (command === "-F") rules.length = 0;
	else if (command === "-D") deleteRule(rules, listed(spec), refuse);
	else if (command === "-X") deleteChain(chains, chain, refuse);
	else refuse(`unknown command ${command}`);
}

function deleteRule(rules: string[], rule: string, refuse: (why: string) => void): void {
	const at = rules.indexOf(rule);
	if (at < 0) refuse("Bad rule (does a matching rule exist in that chain?).");
	else rules.splice(at, 1);
}

function deleteChain(chains: Chains, chain: string, refuse: (why: string) => void): void {
	const isUsed = [...chains.values()].flat().some((rule) => ruleWords(rule).at(-1) === chain);
	if (isUsed || chains.get(chain)?.length !== 0) refuse("chain is in use");
	else chains.delete(chain);
}

/** As the "kernel" lists a rule: with its comment at the front. */
function listed(spec: string): string {
	const comment = /(?:^| )-m comment --comment "[^"]*"/.exec(spec)?.[0];
	if (comment === undefined) return spec;
	return `${comment.trim()} ${spec.replace(comment, "").trim()}`;
}

function isBuiltIn(table: string, chain: string): boolean {
	return BUILT_IN[table]?.includes(chain) ?? false;
}
