import { describe, expect, test as it } from "vitest";
import { IP_FAMILIES } from "../../src/services/address.ts";
import type { ServicePort } from "../../src/services/service-port.ts";
import { type Scenario, titledScenarios } from "../kit/scenario.ts";
import { type ModelOutcome, ScenarioModel } from "../kit/scenario-model.ts";
import { endpointNameOf, targetsOf } from "../kit/scenario-objects.ts";
import { EVENT_ORDERS, runFromNothing, runInOrder } from "../kit/scenario-orders.ts";
import { traceReach } from "../kit/scenario-packets.ts";
import type { ScenarioStep } from "../kit/scenario-schema.ts";

const NOTHING = new ScenarioModel().outcome();

describe.each(titledScenarios())("scenario %s", (_title, scenario) => {
	it.each(EVENT_ORDERS)("%s: each step comes out as it says, and nothing is left", (order) => {
		const { steps, end } = runInOrder(scenario, order);
		for (const [index, step] of scenario.steps.entries()) {
			const outcome = steps[index];
			if (outcome === undefined) throw new TypeError(`no outcome of step ${index}`);
			checkPlan(scenario, step, outcome, steps[index - 1]);
			checkReach(step, outcome);
		}
		expect(end.plan).toEqual(NOTHING.plan);
		expect(end.rules).toEqual(NOTHING.rules);
	});

	it("a daemon that has just started decides the same, whatever came before", () => {
		const fresh = runFromNothing(scenario);
		for (const order of EVENT_ORDERS) expect(runInOrder(scenario, order).steps).toEqual(fresh);
	});
});

function checkReach({ does, reach = [] }: ScenarioStep, outcome: ModelOutcome): void {
	for (const { from, to, expect: wanted } of reach) {
		for (const place of from) {
			for (const target of to.flatMap(targetsOf)) {
				const got = { does, place, target, is: traceReach(outcome, place, target) };
				expect(got).toEqual({ does, place, target, is: wanted });
			}
		}
	}
}

function checkPlan(
	{ name }: Scenario,
	{ does, plan = {}, proxyPorts }: ScenarioStep,
	outcome: ModelOutcome,
	before: ModelOutcome | undefined,
): void {
	const short = (text: string) => text.replaceAll(`${name}/`, "");
	const rules = short(IP_FAMILIES.map((family) => outcome.rules[family]).join(""));
	const decided = {
		servicePorts: Object.fromEntries(
			outcome.plan.servicePorts.map((port) => [short(port.key), endpointsOf(port)]),
		),
		unserved: outcome.plan.unserved.map((port) =>
			short(`${port.name}: ${port.reason}: ${port.detail}`),
		),
		healthChecks: Object.fromEntries(
			outcome.plan.healthChecks.map(({ port, localEndpoints }) => [port, localEndpoints]),
		),
		rules: {
			has: plan.rules?.has?.filter((part) => rules.includes(part)),
			hasNot: plan.rules?.hasNot?.filter((part) => !rules.includes(part)),
		},
	};
	// What a step says nothing about may be anything.
	const asked = Object.entries(decided).filter(([what]) => what in plan);
	expect({ does, ...Object.fromEntries(asked) }).toEqual({ does, ...plan });
	const toKeep = proxyPorts === "kept" ? before : undefined;
	expect(proxyPortsOf(outcome), does).toMatchObject(proxyPortsOf(toKeep));
}

function endpointsOf({ endpoints, whenEmpty }: ServicePort): unknown {
	return endpoints.length === 0
		? whenEmpty
		: endpoints.map(({ address }) => endpointNameOf(address));
}

function proxyPortsOf(outcome: ModelOutcome | undefined): Record<string, number> {
	const bindings = outcome?.bindings ?? [];
	return Object.fromEntries(bindings.map(({ key, proxyPort }) => [key, proxyPort]));
}
