import { beforeEach, expect, it } from "vitest";
import { JUMPS } from "../../../src/rules/chains.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { RuleKeeper } from "../../../src/rules/rule-keeper.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { keeperOn, shop, states, web } from "../../kit/keeper.ts";

const { signal } = new AbortController();

let host: FakeXtables;
let keeper: RuleKeeper;

beforeEach(async () => {
	host = new FakeXtables();
	keeper = await keeperOn(host);
});

/** How often each of our jumps is in IPv4's tables, in the order of JUMPS. */
function jumps(): readonly number[] {
	return JUMPS.map(
		({ table, hook, chain }) =>
			(host.ipv4.chains(table).get(hook) ?? []).filter((rule) => rule.endsWith(`-j ${chain}`))
				.length,
	);
}

const NONE = JUMPS.map(() => 0);
const ONCE = JUMPS.map(() => 1);

/** One try of whoever drives the keeper: a look, then what is wanted. */
async function tryAgain(...bindings: readonly Binding[]): Promise<string> {
	await keeper.verify(signal);
	return (await states(keeper.apply(wantedRules(bindings), signal)))[0] ?? "";
}

it("a listing that shows nothing from the start: each try fails, and none leaves a jump", async () => {
	host.listsNothing = true;
	for (let round = 0; round < 5; round += 1) {
		expect(await tryAgain(web)).toBe("failed");
		expect(jumps()).toEqual(NONE);
	}
	const { families } = await keeper.apply(wantedRules([web]), signal);
	expect(families[0]?.result).toMatchObject({
		error: {
			code: "RULES_NOT_IN_FORCE",
			message: expect.stringContaining("iptables-nft-save does not list"),
		},
	});

	host.listsNothing = false;
	expect(await tryAgain(web)).toBe("intact");
	expect(jumps()).toEqual(ONCE);
});

it("a listing that shows nothing later: each jump stays once, and so does what it leads to", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.listsNothing = true;
	for (let round = 0; round < 5; round += 1) {
		expect(await tryAgain(web, shop)).toBe("failed");
		expect(jumps()).toEqual(ONCE);
	}
	host.listsNothing = false;
	expect(await tryAgain(web, shop)).toBe("intact");
	expect(jumps()).toEqual(ONCE);
	expect(host.ipv4.chains("nat").get("KUBE-PORTALS-HOST")).toHaveLength(2);
});

it("jumps that could not be taken back go before the next try adds any", async () => {
	host.listsNothing = true;
	host.failBefore = (command, input) =>
		command.startsWith("iptables-nft-restore") && input.includes("\n-D ")
			? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
			: undefined;
	for (let round = 0; round < 5; round += 1) {
		expect(await tryAgain(web)).toBe("failed");
		expect(jumps()).toEqual(ONCE);
	}
	host.failBefore = () => undefined;
	host.listsNothing = false;
	expect(await tryAgain(web)).toBe("intact");
	expect(jumps()).toEqual(ONCE);
});

it.each([
	["at once", () => Promise.resolve()],
	["after captureOff()", () => keeper.captureOff(signal)],
	["after tries that failed", () => tryAgain(shop)],
	["after nothing was wanted any more", () => tryAgain()],
])("remove() removes what no listing shows, %s", async (_, before) => {
	await keeper.apply(wantedRules([web]), signal);
	host.listsNothing = true;
	await before();

	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);

	expect(host.ipv4.save()).not.toContain("KUBE");
});

it("remove() takes more jumps away than we know of", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const output = host.ipv4.chains("nat").get("OUTPUT") ?? [];
	output.push(...output, ...output);
	host.listsNothing = true;

	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);

	expect(host.ipv4.save()).not.toContain("KUBE");
});

it("remove() fails while what no listing shows cannot be removed, and succeeds after", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.listsNothing = true;
	host.failBefore = (command) =>
		command.startsWith("iptables-nft-restore")
			? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
			: undefined;
	expect(await states(keeper.remove(signal))).toEqual(["failed", "applied"]);
	expect(await states(keeper.remove(signal))).toEqual(["failed", "applied"]);

	host.failBefore = () => undefined;
	const postrouting = () => host.ipv4.chains("nat").get("POSTROUTING");
	postrouting()?.push("-s 10.0.0.1/32 -j KUBE-PORTALS-HOST");
	const { families } = await keeper.remove(signal);
	expect(families[0]?.result).toMatchObject({ error: { code: "RULES_REFUSED" } });

	postrouting()?.pop();
	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);
	expect(host.ipv4.save()).not.toContain("KUBE");
});

it("remove() after a flush finds that nothing is left, and runs nothing more the second time", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.ipv4.flush();
	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);
	expect(host.ipv4.save()).not.toContain("KUBE");
	host.ran.length = 0;
	await keeper.remove(signal);
	expect(host.ran.filter((command) => command.includes("-restore"))).toEqual([]);
});

it("remove() runs no blind removal where nothing was ever put in", async () => {
	host.failBefore = (command) =>
		command.startsWith("iptables-nft-restore")
			? new CommandError("COMMAND_NO_KERNEL_SUPPORT", { file: "iptables-nft-restore" })
			: undefined;
	expect(await states(keeper.apply(wantedRules([web]), signal))).toEqual(["failed", "intact"]);
	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);
});
