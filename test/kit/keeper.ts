import { findTools } from "../../src/rules/find-tools.ts";
import { createRuleKeeper, type RuleKeeper } from "../../src/rules/rule-keeper.ts";
import { chooseVariant } from "../../src/rules/variant.ts";
import { aBinding } from "./bindings.ts";
import type { FakeXtables } from "./fake-xtables.ts";

/** The bindings that tests of the rule keeper are about. */
export const web = aBinding();
export const shop = aBinding({ service: "till", addresses: ["10.96.0.11"], proxyPort: 30_011 });
export const web6 = aBinding({ addresses: ["fd96::10"], proxyPort: 30_006 });
export const dns = aBinding({
	service: "dns",
	protocol: "udp",
	addresses: ["10.96.0.53"],
	port: 53,
	proxyPort: 30_053,
	listenAddress: "10.1.0.1",
});

/** A rule keeper on tables in memory, chosen as at a start. */
export async function keeperOn(runner: FakeXtables): Promise<RuleKeeper> {
	const { signal } = new AbortController();
	const readTextFile = () => Promise.resolve("");
	return createRuleKeeper(chooseVariant(await findTools({ runner, signal, readTextFile })), runner);
}

/** What came of each family, IPv4 first. */
export async function states(outcome: ReturnType<RuleKeeper["apply"]>): Promise<readonly string[]> {
	return (await outcome).families.map(({ result }) => result.state);
}
