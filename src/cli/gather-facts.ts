import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { release } from "node:os";
import type { Config, ListenAddress } from "../config/config.ts";
import { formatListenAddress } from "../config/listen-address.ts";
import { lookAtConntrackSettings } from "../rules/apply-conntrack-settings.ts";
import { isCommandError } from "../rules/command-error.ts";
import type { CommandRunner } from "../rules/command-runner.ts";
import { findTools, type HostTools } from "../rules/find-tools.ts";
import { findOtherProxies } from "../rules/other-proxies.ts";
import type { SettingFiles } from "../rules/setting-files.ts";
import { type ChosenVariant, chooseVariant } from "../rules/variant.ts";
import type { XtablesTools } from "../rules/xtables.ts";
import { IP_FAMILIES } from "../services/address.ts";
import { describeError, errorCode } from "../shared/errors.ts";
import type { HostFacts, ListenTrial, RuleTrial, TablesFacts } from "./check-facts.ts";
import { readSources } from "./read-sources.ts";
import { sampleRules } from "./sample-rules.ts";

/** One command, in milliseconds: iptables may wait for its lock. */
const COMMAND_TIMEOUT_MS = 15_000;

export interface FactsSources {
	readonly runner: CommandRunner;
	readonly readTextFile: (path: string) => Promise<string | undefined>;
	/** The kernel's settings. */
	readonly settings: SettingFiles;
	/** CPUs of the host. */
	readonly cpuCount: number;
	readonly nodeVersion: string;
	readonly platform: string;
	readonly env: Readonly<Record<string, string | undefined>>;
}

/** Looks at this host. Changes nothing; trials of rules happen in a namespace that ends with them. */
export async function gatherFacts(
	config: Config,
	from: FactsSources,
	signal: AbortSignal,
): Promise<HostFacts> {
	const { runner, readTextFile } = from;
	const isOn = config.rules !== "none";
	const { tables, chosen, tools } = await lookAtTables(from, signal);
	return {
		nodeVersion: from.nodeVersion,
		platform: from.platform,
		capabilities: parseCapabilities((await readTextFile("/proc/self/status")) ?? ""),
		descriptorLimit: parseDescriptorLimit((await readTextFile("/proc/self/limits")) ?? ""),
		tables,
		conntrack: (await runs(runner, "conntrack", ["--version"], signal)) ? "found" : "missing",
		conntrackSettings: lookAtConntrackSettings(config.conntrack, from.cpuCount, from.settings),
		trials: isOn && chosen !== undefined ? await tryRules(runner, chosen, signal) : [],
		otherProxies: await findOtherProxies(tools ?? { found: [] }, { runner, readTextFile, signal }),
		ipvs: await lookForIpvs(readTextFile),
		sources: (await readSources(config, from.env, signal)).sources,
		listens: await tryListens(config),
	};
}

async function lookAtTables(
	{ runner, readTextFile }: FactsSources,
	signal: AbortSignal,
): Promise<{
	readonly tables: TablesFacts;
	readonly chosen: ChosenVariant | undefined;
	readonly tools: HostTools | undefined;
}> {
	let tools: HostTools | undefined;
	try {
		tools = await findTools({ runner, readTextFile, signal });
		const chosen = chooseVariant(tools);
		const unavailable = IP_FAMILIES.flatMap((family) => {
			const support = chosen.families[family];
			return support.state === "unavailable" ? [{ family, reason: support.reason }] : [];
		});
		const { variant, version, reason } = chosen;
		return { tables: { state: "usable", variant, version, reason, unavailable }, chosen, tools };
	} catch (error) {
		const isPermission = isCommandError(error, "COMMAND_NOT_PERMITTED");
		const reason = isPermission ? "they cannot be read without root" : describeError(error);
		return { tables: { state: "unusable", reason, isPermission }, chosen: undefined, tools };
	}
}

/** Gives each family's sample to the kernel, in a network namespace that only this command is in. */
async function tryRules(
	runner: CommandRunner,
	chosen: ChosenVariant,
	signal: AbortSignal,
): Promise<readonly RuleTrial[]> {
	const trials: RuleTrial[] = [];
	const mayUnshare = await runs(runner, "unshare", ["--net", "true"], signal);
	for (const family of IP_FAMILIES) {
		const support = chosen.families[family];
		if (support.state === "unavailable") continue;
		// oxlint-disable-next-line no-await-in-loop -- the two share the xtables lock
		trials.push(await tryFamily(runner, support.tools, mayUnshare, signal));
	}
	return trials;
}

async function tryFamily(
	runner: CommandRunner,
	{ family, restore }: XtablesTools,
	mayUnshare: boolean,
	signal: AbortSignal,
): Promise<RuleTrial> {
	const how = mayUnshare ? "namespace" : "text";
	const [file, args] = mayUnshare
		? ["unshare", ["--net", restore, "--noflush", "--wait", "5"]]
		: [restore, ["--noflush", "--wait", "5", "--test"]];
	try {
		await runner.run(file, args, {
			input: sampleRules(family),
			signal,
			timeoutMs: COMMAND_TIMEOUT_MS,
		});
		return { family, how, problem: undefined };
	} catch (error) {
		return { family, how, problem: describeError(error) };
	}
}

async function runs(
	runner: CommandRunner,
	file: string,
	args: readonly string[],
	signal: AbortSignal,
): Promise<boolean> {
	try {
		await runner.run(file, args, { signal, timeoutMs: COMMAND_TIMEOUT_MS });
		return true;
	} catch {
		return false;
	}
}

async function lookForIpvs(readTextFile: FactsSources["readTextFile"]): Promise<HostFacts["ipvs"]> {
	const table = await readTextFile("/proc/net/ip_vs");
	if (table !== undefined) return /^(TCP|UDP|SCTP|FWM) /m.test(table) ? "in use" : "loaded";
	const folder = `/lib/modules/${release()}`;
	const lists = await Promise.all(
		["modules.builtin", "modules.dep"].map((name) => readTextFile(`${folder}/${name}`)),
	);
	return lists.some((list) => list?.includes("/ip_vs.ko") === true) ? "available" : "absent";
}

/** The CapEff line of /proc/self/status. */
export function parseCapabilities(status: string): bigint | undefined {
	const hex = /^CapEff:\s*([0-9a-f]{1,16})$/m.exec(status)?.[1];
	return hex === undefined ? undefined : BigInt(`0x${hex}`);
}

/** The hard limit of open files in /proc/self/limits; Node raises the soft one to it when it starts. */
export function parseDescriptorLimit(limits: string): number {
	const hard = /^Max open files\s+\S+\s+(\d+|unlimited)/m.exec(limits)?.[1] ?? "1024";
	return hard === "unlimited" ? 1_048_576 : Number(hard);
}

async function tryListens(config: Config): Promise<readonly ListenTrial[]> {
	const { healthzBindAddress, metricsBindAddress } = config;
	return [
		...(await tryListen("--healthz-bind-address", healthzBindAddress)),
		...(await tryListen("--metrics-bind-address", metricsBindAddress)),
	];
}

async function tryListen(
	flag: ListenTrial["flag"],
	listen: ListenAddress | undefined,
): Promise<readonly ListenTrial[]> {
	if (listen === undefined) return [];
	const address = formatListenAddress(listen);
	const server = createServer();
	const code = await new Promise<string | undefined>((resolve) => {
		server.on("error", (error) => resolve(errorCode(error) ?? describeError(error)));
		server.listen({ host: listen.address, port: listen.port, exclusive: true }, () =>
			server.close(() => resolve(undefined)),
		);
	});
	return [{ flag, address, code }];
}

/** Content of a file; undefined where there is none, or it cannot be read. */
export async function readTextFileIfAny(path: string): Promise<string | undefined> {
	try {
		return await readFile(path, "utf8");
	} catch {
		return undefined;
	}
}
