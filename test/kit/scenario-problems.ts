import { parseServicePortKey } from "../../src/services/service-port.ts";
import type { Expectation, ScenarioFile, ScenarioObject, ScenarioStep } from "./scenario-schema.ts";
import { ScenarioState } from "./scenario-state.ts";

/**
 * What a file of good fields says that cannot be meant: objects that are not there, expectations that
 * nothing could meet or that nothing could fail. Each with its field.
 */
export function findScenarioProblems(file: ScenarioFile, namespace: string): readonly string[] {
	const problems: string[] = [];
	const add = (field: string, message: string) => problems.push(`${field}: ${message}`);
	if (file.kernel && Object.keys(file.flags).length > 0) {
		add("flags", "one daemon serves all scenarios of a kernel: wanted kernel: false beside them");
	}
	for (const [label, object] of Object.entries(file.objects)) {
		checkObject(`objects.${label}`, label, object, file, add);
	}
	const state = new ScenarioState(file.objects);
	for (const [index, step] of file.steps.entries()) {
		checkStep(`steps[${index}]`, step, { state, namespace, isFirst: index === 0 }, add);
	}
	return problems;
}

type Add = (field: string, message: string) => void;

function checkObject(
	field: string,
	label: string,
	object: ScenarioObject,
	{ objects, steps, kernel }: ScenarioFile,
	add: Add,
): void {
	if (!steps.some(({ apply }) => apply?.includes(label) === true)) add(field, "no step applies it");
	if (object.kind !== "EndpointSlice") return;
	const isOwned = Object.entries(objects).some(
		([other, { kind, ...rest }]) =>
			kind === "Service" && ("name" in rest ? (rest.name ?? other) : other) === object.of,
	);
	if (!isOwned) add(`${field}.of`, `no Service of the file is called "${object.of}"`);
	for (const [index, { port }] of object.ports.entries()) {
		if (!kernel || port === 8080) continue;
		add(`${field}.ports[${index}].port`, "the lab's endpoints listen on 8080 only");
	}
}

interface StepContext {
	readonly state: ScenarioState;
	readonly namespace: string;
	readonly isFirst: boolean;
}

function checkStep(
	field: string,
	step: ScenarioStep,
	{ state, namespace, isFirst }: StepContext,
	add: Add,
): void {
	for (const problem of state.take(step)) add(field, problem);
	if (step.proxyPorts !== undefined && isFirst) add(`${field}.proxyPorts`, "no step is before");
	if (step.reach === undefined && step.plan === undefined) add(field, "wanted reach, plan or both");
	checkReach(field, step, state, add);
	for (const key of Object.keys(step.plan?.servicePorts ?? {})) {
		const at = `${field}.plan.servicePorts.${key}`;
		const parts = parseServicePortKey(`${namespace}/${key}`);
		if (parts === undefined) add(at, "wanted SERVICE:PORT/tcp or udp/ipv4 or ipv6, or with /local");
		else if (!state.hasService(parts.serviceName)) add(at, "no such Service is there in this step");
	}
}

function checkReach(field: string, step: ScenarioStep, state: ScenarioState, add: Add): void {
	for (const [index, { to, expect }] of (step.reach ?? []).entries()) {
		if (expect === "not captured") continue;
		const at = `${field}.reach[${index}]`;
		// Nothing else answers there, so that a typo shows.
		const isUnused = (target: string) =>
			typeof expect === "string" && state.hasClusterIp(addressOf(target), expect);
		const meant = to.filter((target) => !isUnused(target));
		for (const port of strangers(meant.map(portOf), state.ports())) {
			add(`${at}.to`, `no Service of this step has port ${port}`);
		}
		for (const name of strangers(endpointsIn(expect), state.endpoints())) {
			add(`${at}.expect`, `no EndpointSlice of this step holds ${name}`);
		}
	}
}

function portOf(target: string): number {
	return Number(/:(\d+)\//.exec(target)?.[1]);
}

function addressOf(target: string): string {
	return target.slice(0, target.lastIndexOf(":")).replaceAll(/[[\]]/g, "");
}

function endpointsIn(expect: Expectation): readonly string[] {
	if (typeof expect === "string") return [];
	return "sticky" in expect ? expect.sticky : expect;
}

function strangers<T>(named: readonly T[], known: ReadonlySet<T>): readonly T[] {
	return named.filter((each) => !known.has(each));
}
