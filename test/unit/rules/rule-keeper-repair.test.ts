import { beforeEach, expect, it } from "vitest";
import { findTools } from "../../../src/rules/find-tools.ts";
import { createRuleKeeper, type RuleKeeper } from "../../../src/rules/rule-keeper.ts";
import { chooseVariant } from "../../../src/rules/variant.ts";
import { wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { faultyRunner, seededRandom } from "../../kit/faulty-runner.ts";
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

it.each<[string, () => void, string]>([
	["a flush", () => host.ipv4.flush(), "the chain is gone"],
	["an emptied chain", () => void captured().splice(0), "0 rules, not the 1"],
	[
		"a deleted rule",
		() => void host.ipv4.chains("filter").get("KUBE-NODEPORT-NON-LOCAL")?.pop(),
		"3 rules, not the 4",
	],
	["a changed rule", () => captured().splice(0, 1, "-j RETURN"), "1 rules"],
	[
		"a rule in front of our jump",
		() => host.ipv4.chains("nat").get("PREROUTING")?.unshift("-j ACCEPT"),
		"not in their place",
	],
	[
		"a lost jump",
		() => void host.ipv4.chains("nat").get("OUTPUT")?.shift(),
		"jump to KUBE-PORTALS-HOST is missing",
	],
	[
		"a doubled jump",
		() =>
			host.ipv4
				.chains("filter")
				.get("INPUT")
				?.push(host.ipv4.chains("filter").get("INPUT")?.[0] ?? ""),
		"doubled",
	],
])("verify() puts %s right, once", async (_, damage, drift) => {
	await keeper.apply(wantedRules([web]), signal);
	const before = host.ipv4.save();
	damage();

	const { families } = await keeper.verify(signal);

	expect(families[0]?.result).toMatchObject({ state: "repaired" });
	expect(JSON.stringify(families[0]?.result)).toContain(drift);
	expect(host.ipv4.save().replace("-A PREROUTING -j ACCEPT\n", "")).toBe(before);
	expect(await states(keeper.verify(signal))).toEqual(["intact", "intact"]);
	expect(keeper.facts().repairs).toBe(1);
});

it("a plan that came to nothing after a flush is not put back by verify()", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.ipv4.flush();

	await keeper.apply(wantedRules([]), signal);
	await keeper.verify(signal);

	expect(host.ipv4.save()).not.toContain("KUBE");
});

it("a jump that goes between look and restore does not make the apply fail", async () => {
	await keeper.apply(wantedRules([web]), signal);
	const output = host.ipv4.chains("nat").get("OUTPUT") ?? [];
	const [jump = ""] = output;
	output.push(jump);
	host.meddle = (command) => {
		if (!command.includes("-restore")) return;
		host.ipv4.chains("nat").get("OUTPUT")?.pop();
		host.meddle = () => {};
	};

	expect(await states(keeper.verify(signal))).toEqual(["repaired", "intact"]);
	expect(host.ipv4.chains("nat").get("OUTPUT")).toHaveLength(2);
});

it("rules that somebody wrote into our chains right after the apply are not taken for intact", async () => {
	host.meddle = (command) => {
		if (command === "iptables-nft-save" && captured().length > 0) captured().push("-j RETURN");
	};

	const { families } = await keeper.apply(wantedRules([web]), signal);
	expect(families[0]?.result).toMatchObject({ error: { code: "RULES_NOT_IN_FORCE" } });

	host.meddle = () => {};
	expect(await states(keeper.apply(wantedRules([web]), signal))).toEqual(["applied", "intact"]);
	expect(captured()).toHaveLength(1);
});

it("verify() does not touch rules that are intact (classic 9.7.3)", async () => {
	await keeper.apply(wantedRules([web]), signal);
	host.ran.length = 0;

	await keeper.verify(signal);

	expect(host.ran).toEqual(["iptables-nft-save"]);
});

it("whatever commands fail, the last plan is in force in the end and nothing is doubled", async () => {
	const seed = Math.floor(Math.random() * 2 ** 31);
	const faulty = faultyRunner(host, { random: seededRandom(seed), share: 0.3 });
	const chosen = chooseVariant(
		await findTools({ runner: host, signal, readTextFile: () => Promise.resolve("") }),
	);
	const shaky = createRuleKeeper(chosen, faulty);
	const random = seededRandom(seed + 1);
	for (let step = 0; step < 200; step += 1) {
		const wanted = [web, shop, dns, web6].filter(() => random() < 0.6);
		if (random() < 0.1) host.ipv4.flush();
		for (let attempt = 0; attempt < 50; attempt += 1) {
			const outcome = await shaky.apply(wantedRules(wanted), signal);
			if (outcome.families.every(({ result }) => result.state !== "failed")) break;
		}
		while ((await states(shaky.verify(signal))).includes("failed"));
		const ports = captured().map((rule) => /(\d+)$/.exec(rule)?.[1]);
		const ipv4 = wanted.filter(({ family }) => family === "ipv4");
		expect(new Set(ports), `seed ${seed}`).toEqual(
			new Set(ipv4.map(({ proxyPort }) => String(proxyPort))),
		);
		expect(ports, `seed ${seed}`).toHaveLength(ipv4.length);
		expect(host.ipv4.chains("nat").get("OUTPUT")?.length ?? 0, `seed ${seed}`).toBeLessThan(3);
	}
	expect(faulty.faults()).toBeGreaterThan(10);
});
