import type { SettingState } from "../rules/apply-conntrack-settings.ts";
import type { OtherProxyTrace } from "../rules/other-proxies.ts";
import type { ListedSource } from "./read-sources.ts";

/** What `check` has found out about this host; judged in check.ts, gathered in gather-facts.ts. */
export interface HostFacts {
	/** "26.10.0". */
	readonly nodeVersion: string;
	/** "linux". */
	readonly platform: string;
	/** Effective capabilities as the kernel's bit mask; undefined: not known. */
	readonly capabilities: bigint | undefined;
	readonly descriptorLimit: number;
	readonly tables: TablesFacts;
	/** The command. */
	readonly conntrack: "found" | "missing";
	/** How each setting of connection tracking that is wanted stands. */
	readonly conntrackSettings: readonly SettingState[];
	/** How the kernel took a sample of our rules, by family. */
	readonly trials: readonly RuleTrial[];
	readonly otherProxies: readonly OtherProxyTrace[];
	readonly ipvs: "in use" | "loaded" | "available" | "absent";
	readonly sources: readonly ListedSource[];
	readonly listens: readonly ListenTrial[];
}

export type TablesFacts =
	| {
			readonly state: "usable";
			/** "iptables (nf_tables) 1.8.9": nft or legacy, with its version. */
			readonly variant: "nft" | "legacy";
			readonly version: string;
			/** Why this variant: "it holds more rules". */
			readonly reason: string;
			/** Families that cannot have rules, and why. */
			readonly unavailable: readonly { readonly family: string; readonly reason: string }[];
	  }
	| { readonly state: "unusable"; readonly reason: string; readonly isPermission: boolean };

export interface RuleTrial {
	readonly family: "ipv4" | "ipv6";
	/** `namespace`: the kernel really took them; `text`: only the program read them. */
	readonly how: "namespace" | "text";
	/** Undefined: taken. */
	readonly problem: string | undefined;
}

export interface ListenTrial {
	readonly flag: "--healthz-bind-address" | "--metrics-bind-address";
	/** "0.0.0.0:10256". */
	readonly address: string;
	/** "EADDRINUSE"; undefined: free. */
	readonly code: string | undefined;
}
