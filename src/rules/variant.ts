import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { FoundTools, HostTools } from "./find-tools.ts";
import { holdsNothingOfOurs, type SavedRules } from "./saved-rules.ts";
import type { Variant, XtablesTools } from "./xtables.ts";

type FamilySupport =
	| { readonly state: "available"; readonly tools: XtablesTools }
	| { readonly state: "unavailable"; readonly reason: string };

/** Which programs we use on this host, chosen once at start. */
export interface ChosenVariant {
	readonly variant: Variant;
	/** "1.8.9". */
	readonly version: string;
	/** Why this one, for the log: "kubelet uses it". */
	readonly reason: string;
	readonly families: Readonly<Record<IpFamily, FamilySupport>>;
	/** Programs of the other variant behind which chains of ours were left over. */
	readonly leftovers: readonly XtablesTools[];
}

/** No family can have rules on this host. */
class NoRulesSupportError extends UserProxyError {
	readonly code = "NO_RULES_SUPPORT";
	/** True where a program failed that may succeed later: there may be rules after all. */
	readonly retriable: boolean;

	constructor(host: HostTools) {
		super(`Cannot use packet rules on this host: ${reasonsOf(host).join("; ")}`);
		this.retriable = host.found.some(
			({ saved }) => saved instanceof UserProxyError && saved.retriable,
		);
	}
}

/**
 * Decides which variant of iptables this host uses.
 *
 * Kubelet's hint counts most, then where other people have more rules, then where a predecessor of
 * ours has rules, then what plain `iptables` is. Both families use the same one.
 *
 * @throws {NoRulesSupportError} where neither family has a usable variant.
 */
export function chooseVariant(host: HostTools): ChosenVariant {
	const nft = usable(host, "nft");
	const legacy = usable(host, "legacy");
	if (nft.length === 0 && legacy.length === 0) throw new NoRulesSupportError(host);
	const { variant, reason } = decide(nft, legacy, host.plainVariant);
	const [first] = variant === "nft" ? nft : legacy;
	return {
		variant,
		version: first?.tools.version ?? "unknown",
		reason,
		families: {
			ipv4: supportOf("ipv4", variant, host),
			ipv6: supportOf("ipv6", variant, host),
		},
		leftovers: (variant === "nft" ? legacy : nft)
			.filter(({ saved }) => !holdsNothingOfOurs(saved))
			.map(({ tools }) => tools),
	};
}

interface UsableTools {
	readonly tools: XtablesTools;
	readonly saved: SavedRules;
}

function decide(
	nft: readonly UsableTools[],
	legacy: readonly UsableTools[],
	plainVariant: Variant | undefined,
): { readonly variant: Variant; readonly reason: string } {
	if (legacy.length === 0) return { variant: "nft", reason: "the other variant cannot be used" };
	if (nft.length === 0) return { variant: "legacy", reason: "the other variant cannot be used" };
	const measures: readonly (readonly [string, (tools: readonly UsableTools[]) => number])[] = [
		["kubelet uses it", (tools) => Number(tools.some(({ saved }) => saved.hasKubeletHint))],
		["it holds more rules", (tools) => sum(tools.map(({ saved }) => saved.foreignRuleCount))],
		[
			"it holds chains of ours",
			(tools) => Number(tools.some(({ saved }) => !holdsNothingOfOurs(saved))),
		],
		["it is the plain iptables", (tools) => Number(tools[0]?.tools.variant === plainVariant)],
	];
	for (const [reason, measure] of measures) {
		const difference = measure(nft) - measure(legacy);
		if (difference !== 0) return { variant: difference > 0 ? "nft" : "legacy", reason };
	}
	return { variant: "nft", reason: "nothing speaks for either" };
}

function supportOf(family: IpFamily, variant: Variant, host: HostTools): FamilySupport {
	const found = host.found.find(
		({ tools }) => tools.family === family && tools.variant === variant,
	);
	if (found !== undefined && !(found.saved instanceof Error)) {
		return { state: "available", tools: found.tools };
	}
	return { state: "unavailable", reason: reasonFor(family, found, host) };
}

function reasonFor(family: IpFamily, found: FoundTools | undefined, host: HostTools): string {
	if (found?.saved instanceof Error) return describeError(found.saved);
	return host.missing.get(family) ?? `the variant in use has no programs for ${family}`;
}

function reasonsOf(host: HostTools): readonly string[] {
	return IP_FAMILIES.map((family) => {
		const found = host.found.find(({ tools }) => tools.family === family);
		return `${family}: ${reasonFor(family, found, host)}`;
	});
}

function usable(host: HostTools, variant: Variant): readonly UsableTools[] {
	return host.found.flatMap(({ tools, saved }) =>
		tools.variant === variant && !(saved instanceof Error) ? [{ tools, saved }] : [],
	);
}

function sum(numbers: readonly number[]): number {
	return numbers.reduce((total, number) => total + number, 0);
}
