import { expect, it } from "vitest";
import type { HostTools } from "../../../src/rules/find-tools.ts";
import { parseSavedRules, type SavedRules } from "../../../src/rules/saved-rules.ts";
import { chooseVariant } from "../../../src/rules/variant.ts";
import type { Variant } from "../../../src/rules/xtables.ts";
import type { IpFamily } from "../../../src/services/address.ts";

const nothing = parseSavedRules("");
const hint = parseSavedRules("*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n");
const oneRule = parseSavedRules("*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n");
const twoRules = parseSavedRules("*filter\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j DROP\nCOMMIT\n");
const ours = parseSavedRules(
	"*nat\n:KUBE-PORTALS-HOST - [0:0]\n-A KUBE-PORTALS-HOST -j RETURN\n-A KUBE-PORTALS-HOST -j RETURN\nCOMMIT\n",
);

function tools(variant: Variant, saved: SavedRules | Error, family: IpFamily = "ipv4") {
	const prefix = `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}`;
	return {
		tools: {
			family,
			variant,
			version: "1.8.9",
			save: `${prefix}-save`,
			restore: `${prefix}-restore`,
		},
		saved,
	};
}

function host(found: HostTools["found"], plainVariant: Variant | undefined = "nft"): HostTools {
	return { found, plainVariant, missing: new Map([["ipv6", "the kernel has no IPv6"]]) };
}

it.each<[string, SavedRules, SavedRules, Variant, Variant, string]>([
	["kubelet's hint in nft", hint, twoRules, "legacy", "nft", "kubelet uses it"],
	["kubelet's hint in legacy", twoRules, hint, "nft", "legacy", "kubelet uses it"],
	["more rules in legacy", oneRule, twoRules, "nft", "legacy", "it holds more rules"],
	["more rules in nft", twoRules, oneRule, "legacy", "nft", "it holds more rules"],
	[
		"the host's rule against our own leftovers",
		oneRule,
		ours,
		"legacy",
		"nft",
		"it holds more rules",
	],
	["our own rules only", nothing, ours, "nft", "legacy", "it holds chains of ours"],
	[
		"nothing at all, plain legacy",
		nothing,
		nothing,
		"legacy",
		"legacy",
		"it is the plain iptables",
	],
	["nothing at all, plain nft", nothing, nothing, "nft", "nft", "it is the plain iptables"],
])("chooseVariant() with %s", (_, nft, legacy, plain, variant, reason) => {
	const chosen = chooseVariant(host([tools("nft", nft), tools("legacy", legacy)], plain));

	expect(chosen).toMatchObject({ variant, reason, version: "1.8.9" });
	expect(chosen.families.ipv4).toMatchObject({
		state: "available",
		tools: { save: `iptables-${variant}-save` },
	});
});

it("chooseVariant() takes the only one that can be used", () => {
	const broken = tools("nft", new Error("no nf_tables in the kernel"));

	expect(chooseVariant(host([broken, tools("legacy", nothing)]))).toMatchObject({
		variant: "legacy",
		reason: "the other variant cannot be used",
	});
	expect(chooseVariant(host([tools("nft", nothing)]))).toMatchObject({ variant: "nft" });
});

it("chooseVariant() reports a family without rules and serves the other", () => {
	const chosen = chooseVariant(host([tools("nft", nothing)]));

	expect(chosen.families.ipv6).toEqual({ state: "unavailable", reason: "the kernel has no IPv6" });
});

it("chooseVariant() uses one variant for both families", () => {
	const chosen = chooseVariant(
		host([
			tools("nft", oneRule),
			tools("legacy", nothing),
			tools("nft", nothing, "ipv6"),
			tools("legacy", hint, "ipv6"),
		]),
	);

	expect(chosen.families).toMatchObject({
		ipv4: { tools: { variant: "legacy" } },
		ipv6: { tools: { variant: "legacy" } },
	});
});

it("chooseVariant() tells where chains of ours are left in the other variant", () => {
	const chosen = chooseVariant(host([tools("nft", oneRule), tools("legacy", ours)]));

	expect(chosen.leftovers).toMatchObject([{ variant: "legacy", family: "ipv4" }]);
});

it("chooseVariant() says for each family why there is none (case 36e)", () => {
	const none: HostTools = {
		found: [],
		plainVariant: undefined,
		missing: new Map([
			["ipv4", "iptables is not installed"],
			["ipv6", "the kernel has no IPv6"],
		]),
	};

	expect(() => chooseVariant(none)).toThrow(
		"Cannot use packet rules on this host: ipv4: iptables is not installed; ipv6: the kernel has no IPv6",
	);
});
