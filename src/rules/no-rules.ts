import type { RuleKeeper, RulesOutcome } from "./rule-keeper.ts";

/** Keeps no rules (`--rules none`): clients reach proxy ports only by dialing them. */
export function createNoRules(): RuleKeeper {
	const nothing = (): Promise<RulesOutcome> => Promise.resolve({ families: [] });
	return {
		facts: () => ({
			variant: "none",
			version: undefined,
			reason: "switched off",
			unavailable: [],
			hasLeftovers: false,
			ruleCount: 0,
			applies: 0,
			failures: 0,
			repairs: 0,
			deletedFlowGroups: 0,
			conntrackFailures: 0,
		}),
		apply: nothing,
		verify: nothing,
		inForce: () => new Set(),
		captureOff: nothing,
		remove: nothing,
		cleanFlows: () => Promise.resolve([]),
		previous: () => Promise.resolve([]),
	};
}
