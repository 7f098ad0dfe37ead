import { setImmediate } from "node:timers/promises";
import { beforeEach, expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { CommandRunner } from "../../../src/rules/command-runner.ts";
import { findTools } from "../../../src/rules/find-tools.ts";
import { createRuleKeeper, type RuleKeeper } from "../../../src/rules/rule-keeper.ts";
import { chooseVariant } from "../../../src/rules/variant.ts";
import { wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { dns, keeperOn, shop, states, web, web6 } from "../../kit/keeper.ts";

const { signal } = new AbortController();

let host: FakeXtables;
let keeper: RuleKeeper;

beforeEach(async () => {
	host = new FakeXtables();
	keeper = await keeperOn(host);
	host.ran.length = 0;
});

function captured(): string[] {
	return host.ipv4.chains("nat").get("KUBE-PORTALS-CONTAINER") ?? [];
}

it("apply() sets each family with one restore, and runs nothing when nothing changed (classic 9.7.3)", async () => {
	expect(await states(keeper.apply(wantedRules([web, web6]), signal))).toEqual([
		"applied",
		"applied",
	]);
	expect(host.ran.filter((command) => command.includes("-restore"))).toEqual([
		"iptables-nft-restore --noflush --wait 5",
		"ip6tables-nft-restore --noflush --wait 5",
	]);
	host.ran.length = 0;

	expect(await states(keeper.apply(wantedRules([web6, web]), signal))).toEqual([
		"intact",
		"intact",
	]);
	expect(host.ran).toEqual([]);
});

it("apply() leaves a family without bindings and without rules alone", async () => {
	await keeper.apply(wantedRules([web]), signal);

	expect(host.ipv6.save()).toBe("");
	expect(await states(keeper.apply(wantedRules([]), signal))).toEqual(["applied", "intact"]);
	expect(captured()).toEqual([]);
});

it("apply() of one family goes on when the other fails", async () => {
	host.failBefore = (command) =>
		command.startsWith("iptables-nft-restore")
			? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
			: undefined;

	expect(await states(keeper.apply(wantedRules([web, web6]), signal))).toEqual([
		"failed",
		"applied",
	]);
	expect([...keeper.inForce()]).toEqual([web6.key]);
	expect(host.ipv4.save()).not.toContain("KUBE");

	host.failBefore = () => undefined;
	expect(await states(keeper.apply(wantedRules([web, web6]), signal))).toEqual([
		"applied",
		"intact",
	]);
});

it("apply() that fails keeps the old rules in force, and says so (classic 9.7.3)", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const before = host.ipv4.save();
	host.failBefore = (command) =>
		command.includes("-restore")
			? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
			: undefined;

	const { families } = await keeper.apply(wantedRules([shop]), signal);

	expect(families[0]?.result).toMatchObject({
		state: "failed",
		error: { code: "COMMAND_LOCK_HELD" },
	});
	expect(host.ipv4.save()).toBe(before);
	expect([...keeper.inForce()]).toEqual([web.key]);
	expect(await states(keeper.verify(signal))).toEqual(["intact", "intact"]);
});

it("a refused second table puts the first one back, and names the line", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const before = host.ipv4.save();
	const restore = host.ipv4.restore.bind(host.ipv4);
	host.ipv4.restore = (text) => restore(text.replace("-A KUBE-PORTALS-HOST", "-A NO-SUCH-CHAIN"));

	const { families } = await keeper.apply(wantedRules([shop]), signal);

	expect(host.ipv4.save()).toBe(before);
	expect(families[0]?.result).toMatchObject({
		state: "failed",
		error: {
			code: "RULES_REFUSED",
			line: expect.stringContaining("-A KUBE-PORTALS-HOST -d 10.96.0.11"),
		},
	});
	expect([...keeper.inForce()]).toEqual([web.key]);
});

it("a first apply with a refused second table leaves nothing", async () => {
	const restore = host.ipv4.restore.bind(host.ipv4);
	host.ipv4.restore = (text) => restore(text.replace("-A KUBE-PORTALS-HOST", "-A NO-SUCH-CHAIN"));

	expect(await states(keeper.apply(wantedRules([web]), signal))).toEqual(["failed", "intact"]);

	expect(host.ipv4.save()).not.toContain("KUBE");
});

it("where putting back fails too, both plans count as in force and the next call starts afresh", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const restore = host.ipv4.restore.bind(host.ipv4);
	host.ipv4.restore = (text) =>
		restore(
			text.includes("*nat")
				? text.replace("*nat\n", "*nat\n-A NO-SUCH-CHAIN x\n")
				: "*filter\n-A NO-SUCH-CHAIN x\n",
		);

	const { families } = await keeper.apply(wantedRules([shop]), signal);
	expect(families[0]?.result).toMatchObject({ error: { code: "RULES_HALF_APPLIED" } });
	expect(keeper.inForce()).toEqual(new Set([web.key, shop.key]));

	host.ipv4.restore = restore;
	expect(await states(keeper.verify(signal))).toEqual(["intact", "intact"]);
	expect(captured()).toHaveLength(1);
	expect(captured()[0]).toContain("30011");
	expect([...keeper.inForce()]).toEqual([shop.key]);
});

it("a restore that was killed after it had done its work is put back, and done again", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const before = host.ipv4.save();
	const restore = host.ipv4.restore.bind(host.ipv4);
	host.ipv4.restore = (text) => {
		restore(text);
		host.ipv4.restore = restore;
		throw new CommandError("COMMAND_TIMED_OUT", { file: "iptables-nft-restore" });
	};

	expect(await states(keeper.apply(wantedRules([shop]), signal))).toEqual(["failed", "intact"]);
	expect(host.ipv4.save()).toBe(before);
	expect([...keeper.inForce()]).toEqual([web.key]);
	expect(await states(keeper.apply(wantedRules([shop]), signal))).toEqual(["applied", "intact"]);
});

it("previous() tells what a predecessor left, and the first apply takes its place in one restore", async () => {
	await keeper.apply(wantedRules([web, web6]), signal);
	const successor = await keeperOn(host);
	host.ran.length = 0;

	expect(await successor.previous(signal)).toMatchObject([
		{ key: web.key, proxyPort: 30_001 },
		{ key: web6.key, proxyPort: 30_006 },
	]);
	await successor.apply(wantedRules([{ ...web, proxyPort: shop.proxyPort }, web6]), signal);

	expect(captured()).toHaveLength(1);
	expect(captured()[0]).toContain("30011");
	expect(host.ran.filter((command) => command.startsWith("iptables-nft-restore"))).toHaveLength(1);
});

it("captureOff() stops capture at once and keeps what lets established flows in", async () => {
	await keeper.apply(wantedRules([web, dns]), signal);
	const admission = [...(host.ipv4.chains("filter").get("KUBE-NODEPORT-NON-LOCAL") ?? [])];

	expect(await states(keeper.captureOff(signal))).toEqual(["applied", "intact"]);

	expect(captured()).toEqual([]);
	expect(host.ipv4.chains("filter").get("KUBE-NODEPORT-NON-LOCAL")).toEqual(admission);
	expect(keeper.inForce().size).toBe(0);
	expect(await states(keeper.verify(signal))).toEqual(["intact", "intact"]);
});

it("remove() leaves nothing of ours, also after captureOff and twice (classic 9.7.3)", async () => {
	await keeper.apply(wantedRules([web, web6]), signal);
	await keeper.captureOff(signal);

	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);
	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);

	expect(host.ipv4.save() + host.ipv6.save()).not.toContain("KUBE");
	expect(await states(keeper.verify(signal))).toEqual(["intact", "intact"]);
});

it("remove() fails while something of ours is left in the variant that is not used", async () => {
	const look = { runner: host, signal, readTextFile: () => Promise.resolve("") };
	const chosen = chooseVariant(await findTools(look));
	const [tools] = chosen.families.ipv4.state === "available" ? [chosen.families.ipv4.tools] : [];
	if (tools === undefined) throw new TypeError("fixture");
	const leftover = { ...tools, save: "other-save", restore: "other-restore" };
	const own = createRuleKeeper({ ...chosen, leftovers: [leftover] }, host);

	const { families } = await own.remove(signal);

	expect(families.map(({ result }) => result)).toMatchObject([
		{ state: "failed", error: { code: "COMMAND_NOT_INSTALLED", file: "other-save" } },
		{ state: "applied" },
	]);
});

it("remove() says which chain somebody else holds", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.ipv4.chains("nat").get("POSTROUTING")?.push("-s 10.0.0.1/32 -j KUBE-PORTALS-HOST");

	const { families } = await keeper.remove(signal);

	expect(families[0]?.result).toMatchObject({
		error: { code: "CHAINS_HELD", message: expect.stringContaining("-s 10.0.0.1/32") },
	});
});

it("calls at the same time are done one after the other", async () => {
	let running = 0;
	let most = 0;
	const slow: CommandRunner = {
		async run(file, args, options) {
			if (!file.startsWith("iptables")) return await host.run(file, args, options);
			running += 1;
			most = Math.max(most, running);
			await setImmediate();
			running -= 1;
			return await host.run(file, args, options);
		},
	};
	const look = { runner: host, signal, readTextFile: () => Promise.resolve("") };
	const own = createRuleKeeper(chooseVariant(await findTools(look)), slow);

	await Promise.all([
		own.apply(wantedRules([web]), signal),
		own.apply(wantedRules([shop]), signal),
		own.verify(signal),
	]);

	expect(most).toBe(1);
	expect(captured()).toHaveLength(1);
	expect(captured()[0]).toContain("30011");
});

it("an aborted apply is a failure after which the next one starts afresh", async () => {
	await keeper.apply(wantedRules([web]), signal);

	expect(await states(keeper.apply(wantedRules([shop]), AbortSignal.abort()))).toEqual([
		"failed",
		"failed",
	]);

	expect(await states(keeper.apply(wantedRules([shop]), signal))).toEqual(["applied", "intact"]);
});
