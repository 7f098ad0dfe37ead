import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { cleanup } from "../../src/rules/cleanup.ts";
import type { CommandRunner } from "../../src/rules/command-runner.ts";
import { createRuleKeeper } from "../../src/rules/rule-keeper.ts";
import { aBinding, wantedRules } from "../kit/bindings.ts";
import {
	createRulesLab,
	never,
	type RulesLab,
	rulesLabProblem,
	sweepRules,
} from "../kit/rules-lab.ts";

const problem =
	rulesLabProblem("nft") ?? rulesLabProblem("legacy") ?? rulesLabProblem("nft", "ipv6");
const web = aBinding({ addresses: ["10.96.0.10"] });
const web6 = aBinding({ addresses: ["fd96::10"] });

describe.skipIf(problem !== undefined)(problem ?? "a host with both variants of iptables", () => {
	let rules: RulesLab;

	afterEach(async () => {
		await rules.lab.close();
	});

	it.each(["nft", "legacy"] as const)(
		"that uses %s gets its rules there (case 36a, case 36b)",
		async (variant) => {
			rules = await createRulesLab(variant);

			const chosen = await rules.choose();
			await createRuleKeeper(chosen, rules.runner).apply(wantedRules([web, web6]), never);

			expect(chosen).toMatchObject({ variant, reason: "it holds more rules", leftovers: [] });
			expect(chosen.version).toMatch(/^\d+\.\d+/);
			for (const family of ["ipv4", "ipv6"] as const) {
				expect(await rules.save(family)).toContain("KUBE-PORTALS-CONTAINER -d");
			}
			const other = variant === "nft" ? "iptables-legacy-save" : "iptables-nft-save";
			expect((await rules.lab.node.exec(other, ["-t", "nat"])).stdout).not.toContain("KUBE");
		},
	);

	it("where kubelet uses legacy gets its rules there, whatever else is in nft", async () => {
		rules = await createRulesLab("nft");
		await rules.lab.node.exec("iptables-legacy", ["-t", "mangle", "-N", "KUBE-KUBELET-CANARY"]);

		expect(await rules.choose()).toMatchObject({ variant: "legacy", reason: "kubelet uses it" });
	});

	it("that has tables of nft itself gets its rules beside them, and they stay (case 36d)", async () => {
		rules = await createRulesLab("nft");
		const { node } = rules.lab;
		const input = [
			"table inet mine {",
			"  set ports { type inet_service; elements = { 9, 10 } }",
			"  chain input { type filter hook input priority 10; tcp dport @ports drop; }",
			"  chain nat { type nat hook prerouting priority -110; tcp dport 11 redirect to :12; }",
			"}",
		].join("\n");
		await node.exec("nft", ["-f", "-"], { input });
		const list = async () => (await node.exec("nft", ["list", "table", "inet", "mine"])).stdout;
		const native = await list();
		expect(native).toContain("redirect to :12");

		const chosen = await rules.choose();
		const keeper = createRuleKeeper(chosen, rules.runner);
		const applied = await keeper.apply(wantedRules([web, web6]), never);
		expect(applied.families.map(({ result }) => result.state)).toEqual(["applied", "applied"]);
		const verified = await keeper.verify(never);
		expect(verified.families.map(({ result }) => result.state)).toEqual(["intact", "intact"]);
		expect(await list()).toBe(native);
		await keeper.remove(never);

		expect(await list()).toBe(native);
		expect(await sweepRules(rules)).toEqual([]);
	});

	it("loses what a predecessor left in the other variant once the new rules are in force (case 36c, case 36g)", async () => {
		rules = await createRulesLab("nft");
		const predecessor = await rules.keeper();
		await predecessor.apply(wantedRules([web, web6]), never);
		// The host moves to legacy: a hint and more rules than before.
		await rules.lab.node.exec("iptables-legacy", ["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
		const keeper = await rules.keeper();
		expect(keeper.facts()).toMatchObject({ variant: "legacy", hasLeftovers: true });
		expect(await rules.save()).toContain("KUBE");

		await keeper.apply(wantedRules([web]), never);

		expect(keeper.facts().hasLeftovers).toBe(false);
		expect((await rules.save()) + (await rules.save("ipv6"))).not.toContain("KUBE");
	});

	it("is cleaned in both variants and families, twice, and a rule of somebody else is told", async () => {
		rules = await createRulesLab("nft");
		const nft = await rules.choose();
		await createRuleKeeper(nft, rules.runner).apply(wantedRules([web, web6]), never);
		await rules.lab.node.exec("iptables-legacy", ["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
		const legacy = await rules.choose();
		await createRuleKeeper({ ...legacy, leftovers: [] }, rules.runner).apply(
			wantedRules([web, web6]),
			never,
		);
		await rules.iptables("-t nat -A PREROUTING -s 10.0.0.1 -j KUBE-PORTALS-HOST");

		const first = await cleanup(rules.look);

		expect(first.cleaned).toHaveLength(4);
		expect(first.problems).toEqual([
			expect.stringContaining(
				"chain KUBE-PORTALS-HOST in table nat is empty but cannot be deleted",
			),
		]);
		expect(await sweepRules(rules)).toEqual(["ipv4 nft KUBE-PORTALS-HOST"]);
		await rules.iptables("-t nat -D PREROUTING -s 10.0.0.1 -j KUBE-PORTALS-HOST");
		expect((await cleanup(rules.look)).problems).toEqual([]);
		expect(await cleanup(rules.look)).toEqual({ cleaned: [], problems: [] });
		expect(await rules.save()).toContain("-A INPUT -i lo -j ACCEPT");
	});

	it("where somebody holds the xtables lock keeps its old rules, and gets the new ones later (classic 9.7.3)", async () => {
		rules = await createRulesLab("legacy");
		const folder = await mkdtemp(join(tmpdir(), "kup-lock-"));
		const lock = join(folder, "lock");
		const keeper = createRuleKeeper(await rules.choose(), withLock(rules.runner, lock));
		await keeper.apply(wantedRules([web]), never);
		const before = await rules.save();
		const holder = rules.lab.node.spawn("flock", [lock, "sh", "-c", "echo held; exec cat"], {
			stdio: ["pipe", "pipe", "ignore"],
		});
		if (holder.stdout !== null) await once(holder.stdout, "data");

		const next = [web, aBinding({ service: "other", addresses: ["10.96.0.11"] })];
		const { families } = await keeper.apply(wantedRules(next), never);

		expect(families[0]?.result).toMatchObject({
			state: "failed",
			error: { code: "COMMAND_LOCK_HELD", retriable: true },
		});
		expect([...keeper.inForce()]).toEqual([web.key]);
		expect(withoutComments(await rules.save())).toEqual(withoutComments(before));

		const ended = once(holder, "exit");
		holder.stdin?.end();
		await ended;
		const retried = await keeper.apply(wantedRules(next), never);
		expect(retried.families[0]?.result).toMatchObject({ state: "applied" });
		await rm(folder, { recursive: true });
	});
});

/** The host's own lock is not ours to hold: commands use one of their own, and wait one second for it. */
function withLock(inner: CommandRunner, lock: string): CommandRunner {
	return {
		run: (file, args, options) =>
			inner.run(
				"env",
				[`XTABLES_LOCKFILE=${lock}`, file, ...args.map((arg) => (arg === "5" ? "1" : arg))],
				options,
			),
	};
}

function withoutComments(saved: string): readonly string[] {
	return saved.split("\n").filter((line) => /^(?:-A|\*)/.test(line));
}
