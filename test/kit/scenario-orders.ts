import type { Scenario } from "./scenario.ts";
import type { ModelOutcome } from "./scenario-model.ts";
import { ScenarioModel } from "./scenario-model.ts";
import { rawObjects } from "./scenario-objects.ts";
import type { ScenarioObject } from "./scenario-schema.ts";
import { ScenarioState } from "./scenario-state.ts";

/** In which order the events of one step come. */
export const EVENT_ORDERS = ["Services first", "EndpointSlices first"] as const;
export type EventOrder = (typeof EVENT_ORDERS)[number];

const RANK: Readonly<Record<ScenarioObject["kind"], number>> = {
	Service: 0,
	ServiceCIDR: 1,
	Node: 1,
	EndpointSlice: 2,
};

interface Event {
	readonly what: "apply" | "delete";
	readonly raw: unknown;
	readonly rank: number;
}

/** What was decided after each step, and at last with everything deleted, one event after the other. */
export interface ScenarioRun {
	readonly steps: readonly ModelOutcome[];
	readonly end: ModelOutcome;
}

export function runInOrder(scenario: Scenario, order: EventOrder): ScenarioRun {
	const { name, objects, flags } = scenario;
	const model = new ScenarioModel(flags);
	const state = new ScenarioState(objects);
	const take = (events: readonly Event[]): ModelOutcome => {
		for (const { what, raw } of inOrder(events, order)) {
			model[what](raw);
			model.outcome();
		}
		return model.outcome();
	};
	const eventsOf = (what: Event["what"], labels: readonly string[] = []) =>
		labels.flatMap((label) => {
			const object = objects[label];
			return object === undefined ? [] : toEvents(what, name, label, object);
		});
	const steps = scenario.steps.map((step) => {
		state.take(step);
		return take([...eventsOf("delete", step.delete), ...eventsOf("apply", step.apply)]);
	});
	const rest = state.all().flatMap(([label, object]) => toEvents("delete", name, label, object));
	return { steps, end: take(rest) };
}

/** The same states, each decided by a daemon that has just started. */
export function runFromNothing({ name, objects, flags, steps }: Scenario): ScenarioRun["steps"] {
	const state = new ScenarioState(objects);
	return steps.map((step) => {
		state.take(step);
		const model = new ScenarioModel(flags);
		for (const [label, object] of state.all()) {
			for (const raw of rawObjects(name, label, object)) model.apply(raw);
		}
		return model.outcome();
	});
}

function toEvents(
	what: Event["what"],
	namespace: string,
	label: string,
	object: ScenarioObject,
): readonly Event[] {
	return rawObjects(namespace, label, object).map((raw) => ({
		what,
		raw,
		rank: RANK[object.kind],
	}));
}

function inOrder(events: readonly Event[], order: EventOrder): readonly Event[] {
	const sorted = events.toSorted((a, b) => a.rank - b.rank);
	return order === "Services first" ? sorted : sorted.toReversed();
}
