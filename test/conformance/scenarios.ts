import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import type { Variant } from "../../src/rules/xtables.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";
import { rulesLabProblem } from "../kit/rules-lab.ts";
import { type Scenario, titledScenarios } from "../kit/scenario.ts";
import { createScenarioLab, type ScenarioLab } from "../kit/scenario-lab.ts";
import { rawObjects, targetsOf } from "../kit/scenario-objects.ts";
import type { Reached } from "../kit/scenario-packets.ts";
import type { Place, ScenarioReach, ScenarioStep } from "../kit/scenario-schema.ts";
import { ScenarioState } from "../kit/scenario-state.ts";
import { eventually } from "../kit/service-lab.ts";

/** Each engine and each variant once: neither knows of the other. */
const ENGINE = {
	nft: RELAY_ENGINES[0],
	legacy: RELAY_ENGINES.at(-1) ?? RELAY_ENGINES[0],
} as const satisfies Record<Variant, string>;

/** The whole set with one daemon, each scenario after the last one has left nothing. */
export function testScenarios(variant: Variant): void {
	const relay = ENGINE[variant];
	describe(`scenarios on iptables-${variant}, relayed by ${relay}`, () => {
		testScenariosOn(variant, relay);
	});
}

function testScenariosOn(variant: Variant, relay: (typeof RELAY_ENGINES)[number]): void {
	const problem = rulesLabProblem(variant) ?? rulesLabProblem(variant, "ipv6");
	describe.skipIf(problem !== undefined)(problem ?? "on a real kernel", () => {
		let lab: ScenarioLab;
		let constantRules: readonly string[];
		beforeAll(async () => {
			lab = await createScenarioLab(variant, relay);
			// Those that are there whatever is served come with the first ones.
			await lab.become([]);
			await lab.clear();
			await eventually(async () => {
				constantRules = await lab.rules();
				expect(constantRules.filter((rule) => /-j (?!ACCEPT|RETURN|KUBE)/.test(rule))).toEqual([]);
			});
			expect(constantRules).not.toEqual(lab.hostRules);
		});
		afterAll(() => lab.close());

		const scenarios = titledScenarios().filter(([, { kernel }]) => kernel);
		it.each(scenarios)("%s", async (_title, scenario) => {
			const state = new ScenarioState(scenario.objects);
			for (const step of scenario.steps) await takeStep(lab, scenario, step, state);
			await lab.clear();
			await eventually(async () => expect(await lab.rules()).toEqual(constantRules));
		});

		it("nothing is left of the daemon", async () => {
			expect(await lab.daemon.stop()).toEqual({ code: 0, signal: null });
			expect(await lab.rules()).toEqual(lab.hostRules);
			expect(await lab.rules(variant === "nft" ? "legacy" : "nft")).toEqual([]);
		});
	});
}

async function takeStep(
	lab: ScenarioLab,
	{ name, objects }: Scenario,
	step: ScenarioStep,
	state: ScenarioState,
): Promise<void> {
	const { does, reach = [], proxyPorts } = step;
	const portsToKeep = async () => (proxyPorts === "kept" ? await lab.proxyPorts() : {});
	const before = await portsToKeep();
	state.take(step);
	await lab.become(state.all().flatMap(([label]) => rawOf(name, label, objects[label])));
	const checks = reach.flatMap(checksOf);
	// What waits for nothing to come waits beside the rest; who takes turns must not be disturbed.
	const isSilent = ({ wanted }: Check) => wanted === "dropped" || wanted === "not captured";
	const inTurn = async () => {
		for (const each of checks.filter((one) => !isSilent(one))) await check(lab, does, each);
	};
	const silent = checks.filter(isSilent).map((each) => check(lab, does, each));
	await Promise.all([inTurn(), ...silent]);
	expect(await portsToKeep(), does).toMatchObject(before);
}

interface Check {
	readonly from: Place;
	readonly target: ReturnType<typeof targetsOf>[number];
	readonly wanted: Reached;
}

function checksOf({ from, to, expect: wanted }: ScenarioReach): readonly Check[] {
	return from.flatMap((place) =>
		to.flatMap(targetsOf).map((target) => ({ from: place, target, wanted })),
	);
}

async function check(lab: ScenarioLab, does: string, asked: Check): Promise<void> {
	await eventually(async () => {
		const is = await lab.observe(asked.from, asked.target, asked.wanted);
		expect({ does, ...asked, is }).toEqual({ does, ...asked, is: asked.wanted });
	});
}

function rawOf(
	namespace: string,
	label: string,
	object: Scenario["objects"][string] | undefined,
): unknown[] {
	return object === undefined ? [] : rawObjects(namespace, label, object);
}
