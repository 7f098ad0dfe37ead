import { styleText } from "node:util";
import type { Config } from "../config/config.ts";
import { showControlCharacters } from "../observe/control-characters.ts";
import type { HostFacts, ListenTrial, RuleTrial, TablesFacts } from "./check-facts.ts";
import { EXIT_FAILED, EXIT_FINE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { judgeConntrackSettings } from "./judge-conntrack-settings.ts";
import { judgeOtherProxies } from "./judge-other-proxies.ts";
import { type Judgement, note } from "./judgement.ts";
import type { ListedSource } from "./read-sources.ts";

/** package.json's "engines". */
const MIN_NODE_MAJOR = 24;

/** Bits of the kernel's capability mask (capability.h). */
const CAP_NET_ADMIN = 12n;
const CAP_NET_RAW = 13n;

/** Two per connection: below this, a busy node gets into its limits. */
const LOW_DESCRIPTOR_LIMIT = 4_096;

const MAX_PROBLEMS_TOLD = 10;

/** `check`: looks at this host, says line by line what is fine and what to do about what is not. */
export async function checkCommand(
	host: Host,
	config: Config,
	warnings: readonly string[],
	signal: AbortSignal,
): Promise<number> {
	const facts = await host.doors.gatherFacts(config, signal);
	const judgements = [...warnings.map((text) => note(text)), ...judge(facts, config)];
	for (const judgement of judgements) host.out(formatJudgement(judgement, host.colours));
	const bad = judgements.filter(({ state }) => state === "bad").length;
	host.out(
		bad === 0
			? "kube-userproxy can run here\n"
			: `kube-userproxy cannot run here: ${bad} ${bad === 1 ? "thing is" : "things are"} to be done\n`,
	);
	return bad === 0 ? EXIT_FINE : EXIT_FAILED;
}

const MARKS = { good: "✓", note: "!", bad: "✗" } as const;
const STYLES = { good: "green", note: "yellow", bad: "red" } as const;

function formatJudgement({ state, text, remedy }: Judgement, colours: boolean): string {
	const mark = colours
		? styleText(STYLES[state], MARKS[state], { validateStream: false })
		: MARKS[state];
	const line = `${mark} ${showControlCharacters(text)}\n`;
	return remedy === undefined ? line : `${line}    → ${showControlCharacters(remedy)}\n`;
}

/** Pure. In the order in which things are needed. */
export function judge(facts: HostFacts, config: Config): readonly Judgement[] {
	const rules =
		config.rules === "none"
			? [note("--rules none: nothing captures the Services' addresses, proxy ports only")]
			: [
					judgeCapabilities(facts.capabilities),
					...judgeTables(facts.tables),
					...facts.trials.map(judgeTrial),
					judgeConntrack(facts.conntrack),
					...judgeConntrackSettings(facts.conntrackSettings),
				];
	return [
		judgeNode(facts),
		...rules,
		judgeDescriptors(facts.descriptorLimit),
		...facts.sources.flatMap(judgeSource),
		...facts.listens.map((trial) => judgeListen(trial, config)),
		...judgeOtherProxies(facts, config.serviceProxyName),
		judgeIpvs(facts.ipvs),
	];
}

function judgeNode({ nodeVersion, platform }: HostFacts): Judgement {
	if (platform !== "linux") {
		return { state: "bad", text: `this is ${platform}`, remedy: "run it on Linux" };
	}
	const major = Number(nodeVersion.split(".")[0]);
	return major >= MIN_NODE_MAJOR
		? { state: "good", text: `Node.js ${nodeVersion}` }
		: {
				state: "bad",
				text: `Node.js ${nodeVersion} is too old`,
				remedy: `run it on Node.js ${MIN_NODE_MAJOR} or newer`,
			};
}

function judgeCapabilities(mask: bigint | undefined): Judgement {
	if (mask === undefined) return note("which capabilities this process has cannot be read");
	const missing = [
		...(hasBit(mask, CAP_NET_ADMIN) ? [] : ["CAP_NET_ADMIN"]),
		...(hasBit(mask, CAP_NET_RAW) ? [] : ["CAP_NET_RAW"]),
	];
	return missing.length === 0
		? { state: "good", text: "may change packet rules (CAP_NET_ADMIN, CAP_NET_RAW)" }
		: {
				state: "bad",
				text: `may not change packet rules: lacks ${missing.join(" and ")}`,
				remedy: "run it as root, or with these capabilities (the systemd unit has them)",
			};
}

function hasBit(mask: bigint, bit: bigint): boolean {
	return ((mask >> bit) & 1n) === 1n;
}

function judgeTables(tables: TablesFacts): readonly Judgement[] {
	if (tables.state === "unusable") {
		const remedy = tables.isPermission
			? "run check as root to see what is behind it"
			: "install iptables (Debian: apt-get install iptables), or give --rules none";
		return [{ state: "bad", text: `packet rules: ${tables.reason}`, remedy }];
	}
	const backend = tables.variant === "nft" ? "nf_tables" : "legacy";
	return [
		{
			state: "good",
			text: `iptables ${tables.version} (${backend}), chosen since ${tables.reason}`,
		},
		...tables.unavailable.map(({ family, reason }) =>
			note(`no rules for ${family}: ${reason}; its Services are not served`),
		),
	];
}

function judgeTrial({ family, how, problem }: RuleTrial): Judgement {
	if (problem !== undefined) {
		return {
			state: "bad",
			text: `the kernel does not take our ${family} rules: ${problem}`,
			remedy:
				"it needs nat with REDIRECT and DNAT, REJECT, and the matches conntrack, addrtype, multiport and comment",
		};
	}
	return {
		state: "good",
		text:
			how === "namespace"
				? `the kernel takes our ${family} rules (tried in a network namespace of its own)`
				: `iptables reads our ${family} rules; whether the kernel takes them was not tried (no right to make a namespace)`,
	};
}

function judgeConntrack(conntrack: HostFacts["conntrack"]): Judgement {
	return conntrack === "found"
		? { state: "good", text: "the conntrack command is there" }
		: {
				state: "note",
				text: "no conntrack command: UDP clients that talk without a pause may stay with an endpoint or port that is gone",
				remedy: "install it (Debian: apt-get install conntrack)",
			};
}

function judgeDescriptors(limit: number): Judgement {
	return limit >= LOW_DESCRIPTOR_LIMIT
		? {
				state: "good",
				text: `${limit} file descriptors: about ${Math.floor(limit / 2)} connections`,
			}
		: {
				state: "note",
				text: `only ${limit} file descriptors: about ${Math.floor(limit / 2)} connections, then clients wait`,
				remedy: "raise the hard limit (systemd: LimitNOFILE=1048576; a shell: ulimit -Hn 1048576)",
			};
}

function judgeSource({ name, isComplete, problems }: ListedSource): readonly Judgement[] {
	const told = problems.slice(0, MAX_PROBLEMS_TOLD);
	const rest = problems.length - told.length;
	const more = rest > 0 ? [note(`${name}: ${rest} more problems`)] : [];
	if (!isComplete) {
		const text = told.length === 0 ? [`${name}: cannot be read`] : told.map((p) => `${name}: ${p}`);
		return [...text.map((line): Judgement => ({ state: "bad", text: line })), ...more];
	}
	return [
		{ state: "good", text: `${name}: can be read` },
		...told.map((problem) => note(`${name}: ${problem}`)),
		...more,
	];
}

function judgeListen({ flag, address, code }: ListenTrial, config: Config): Judgement {
	if (code === undefined) return { state: "good", text: `${address} is free (${flag})` };
	const why = code === "EADDRINUSE" ? "in use already" : `cannot be bound: ${code}`;
	return {
		// Without the flag the daemon runs and tries again; with it, it ends.
		state: config.bindAddressHardFail ? "bad" : "note",
		text: `${address} is ${why} (${flag})`,
		remedy: `stop what listens there (another kube-proxy?), or give another ${flag}`,
	};
}

const IPVS_TEXTS: Readonly<Record<HostFacts["ipvs"], string>> = {
	"in use": "IPVS is in use on this host",
	loaded: "the kernel has IPVS: kube-proxy's ipvs mode would work here too",
	available: "the kernel has IPVS as a module: kube-proxy's ipvs mode would work here too",
	absent: "the kernel has no IPVS, and none is needed",
};

function judgeIpvs(ipvs: HostFacts["ipvs"]): Judgement {
	return { state: "good", text: IPVS_TEXTS[ipvs] };
}
