import { ownChainsOf, TABLES } from "./chains.ts";
import { foreignReferences } from "./jumps.ts";
import type { SavedRules } from "./saved-rules.ts";

/** Chains of ours that are there after a removal, and what keeps them, in words. */
export function heldChains(saved: SavedRules): readonly string[] {
	return TABLES.flatMap((table) => {
		const references = foreignReferences(table, saved.tables[table]);
		return ownChainsOf(table)
			.filter((chain) => saved.tables[table].own.has(chain))
			.map((chain) => {
				const holder = references.find((rule) => rule.includes(chain));
				const because =
					holder === undefined ? "" : `: a rule of somebody else leads to it (${holder})`;
				return `chain ${chain} in table ${table} is empty but cannot be deleted${because}`;
			});
	});
}
