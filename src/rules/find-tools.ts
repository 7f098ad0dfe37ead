import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import { CommandError, isCommandError, toError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import { parseSavedRules, type SavedRules } from "./saved-rules.ts";
import { programOf, readSavedRules, type Variant, type XtablesTools } from "./xtables.ts";

/** What this host offers for one family in one variant. */
export interface FoundTools {
	readonly tools: XtablesTools;
	/** What the kernel holds there, or why that cannot be read. */
	readonly saved: SavedRules | Error;
}

export interface HostTools {
	readonly found: readonly FoundTools[];
	/** Variant of the programs without a variant in their name. */
	readonly plainVariant: Variant | undefined;
	/** Families that cannot have rules here at all, and why. */
	readonly missing: ReadonlyMap<IpFamily, string>;
}

export interface HostLook {
	readonly runner: CommandRunner;
	readonly signal: AbortSignal;
	/** Content of a file, or undefined where there is none. */
	readonly readTextFile: (path: string) => Promise<string | undefined>;
}

const VARIANTS = ["nft", "legacy"] as const satisfies readonly Variant[];
const VERSION_TIMEOUT_MS = 10_000;

/** Names of the tables that the legacy variant has in use; reading it loads no kernel module. */
const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
	ipv4: "/proc/net/ip_tables_names",
	ipv6: "/proc/net/ip6_tables_names",
};

/** Addresses of IPv6; the file is missing where the kernel has no IPv6. */
const IPV6_ADDRESSES = "/proc/net/if_inet6";

/**
 * Looks which iptables programs this host has and what the kernel holds behind each.
 *
 * Changes nothing, and does not load the legacy modules where nobody uses them.
 *
 * @throws {CommandError} without the permission to read rules, or when the signal aborts.
 */
export async function findTools(look: HostLook): Promise<HostTools> {
	const found: FoundTools[] = [];
	const missing = new Map<IpFamily, string>();
	let plainVariant: Variant | undefined;
	for (const family of IP_FAMILIES) {
		if (family === "ipv6" && (await look.readTextFile(IPV6_ADDRESSES)) === undefined) {
			missing.set(family, "the kernel has no IPv6");
			continue;
		}
		const plain = await versionOf(look, program(family), [program(family)]);
		plainVariant ??= plain?.variant;
		const candidates = await Promise.all(
			VARIANTS.map((variant) => toolsOf(look, family, variant, plain)),
		);
		const ofFamily = candidates.filter((tools) => tools !== undefined);
		if (ofFamily.length === 0) missing.set(family, `${program(family)} is not installed`);
		for (const tools of ofFamily) {
			found.push({ tools, saved: await savedBehind(look, tools, plain?.variant) });
		}
	}
	return { found, plainVariant, missing };
}

interface ProgramVersion {
	readonly variant: Variant;
	readonly version: string;
	/** What to put before "-save". */
	readonly prefix: string;
}

async function toolsOf(
	look: HostLook,
	family: IpFamily,
	variant: Variant,
	plain: ProgramVersion | undefined,
): Promise<XtablesTools | undefined> {
	const named = programOf({ family, variant });
	const version =
		(await versionOf(look, `${named}-restore`, [named])) ??
		(plain?.variant === variant ? plain : undefined);
	if (version === undefined) return undefined;
	return {
		family,
		variant,
		version: version.version,
		save: `${version.prefix}-save`,
		restore: `${version.prefix}-restore`,
	};
}

async function versionOf(
	{ runner, signal }: HostLook,
	file: string,
	[prefix]: readonly [string],
): Promise<ProgramVersion | undefined> {
	try {
		const { stdout } = await runner.run(file, ["--version"], {
			signal,
			timeoutMs: VERSION_TIMEOUT_MS,
		});
		// "iptables v1.8.9 (nf_tables)"; before 1.8 there was one variant and nothing in brackets.
		const version = /\bv(\d[\w.]*)/.exec(stdout)?.[1] ?? "unknown";
		return { variant: stdout.includes("(nf_tables)") ? "nft" : "legacy", version, prefix };
	} catch (error) {
		if (isCommandError(error, "COMMAND_CANCELED")) throw error;
		return undefined;
	}
}

async function savedBehind(
	look: HostLook,
	tools: XtablesTools,
	plainVariant: Variant | undefined,
): Promise<SavedRules | Error> {
	try {
		if (tools.variant === "legacy" && !(await isLegacyInUse(look, tools.family))) {
			// Loading modules to look at nothing is no good, except where the host is of this variant
			// anyway: there it has to be known whether the kernel still has it.
			if (plainVariant === "legacy") await tryNat(look, tools);
			return parseSavedRules("");
		}
		return await readSavedRules(look.runner, tools, look.signal);
	} catch (error) {
		if (isFatal(error)) throw error;
		return toError(error);
	}
}

async function isLegacyInUse({ readTextFile }: HostLook, family: IpFamily): Promise<boolean> {
	const names = await readTextFile(LEGACY_TABLES[family]);
	return names !== undefined && names.trim() !== "";
}

async function tryNat({ runner, signal }: HostLook, { save }: XtablesTools): Promise<void> {
	await runner.run(save, ["-t", "nat"], { signal, timeoutMs: VERSION_TIMEOUT_MS });
}

/** Without permission every further look fails the same way; the first failure is the clear one. */
function isFatal(error: unknown): boolean {
	return (
		error instanceof CommandError &&
		(error.code === "COMMAND_NOT_PERMITTED" || error.code === "COMMAND_CANCELED")
	);
}

function program(family: IpFamily): string {
	return family === "ipv4" ? "iptables" : "ip6tables";
}
