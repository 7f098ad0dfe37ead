import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { ipFamilyOf } from "../../../src/services/address.ts";
import type { Admission } from "../../../src/services/admission.ts";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import { admitEndpoints } from "../../../src/services/admit-endpoints.ts";
import { admitNode } from "../../../src/services/admit-node.ts";
import { admitService } from "../../../src/services/admit-service.ts";
import { isDnsLabel, isDnsSubdomain } from "../../../src/services/names.ts";
import type { EndpointSlice, NodeInfo, Service } from "../../../src/services/objects.ts";
import {
	arbitraryEndpoints,
	arbitraryJson,
	arbitraryNode,
	arbitraryService,
	arbitrarySlice,
	mutated,
} from "../../kit/arbitrary-objects.ts";
import { problemsOf } from "../../kit/snapshots.ts";

const RUNS = { numRuns: 10_000 };

/** A judge, the rules that hold for whatever it admits, and good objects for it. */
interface Judge {
	readonly kind: string;
	readonly admit: (raw: unknown) => Admission<unknown>;
	/** The promises of its type that the answer breaks; none for what is refused. */
	readonly broken: (raw: unknown) => readonly string[];
	readonly good: fc.Arbitrary<unknown>;
}

const JUDGES: readonly Judge[] = [
	judge("Service", admitService, rulesOfService, arbitraryService),
	judge("EndpointSlice", admitEndpointSlice, rulesOfSlice, arbitrarySlice),
	judge(
		"Endpoints",
		admitEndpoints,
		(slices) => Object.assign({}, ...slices.map(rulesOfSlice)),
		arbitraryEndpoints,
	),
	judge("Node", admitNode, rulesOfNode, arbitraryNode),
];

describe.each(JUDGES)("the judge of any $kind", ({ admit, broken, good }) => {
	it("admits every good one", () => {
		fc.assert(
			fc.property(good, (raw) => {
				expect(problemsOf(admit(raw))).toEqual([]);
			}),
			{ numRuns: 1_000 },
		);
	});

	it("never throws, and admits nothing that breaks a promise of its type", () => {
		const anything = fc.oneof(arbitraryJson, fc.anything({ maxDepth: 3 }), rawOf(good));
		fc.assert(
			fc.property(anything, (raw) => {
				expect(broken(raw)).toEqual([]);
			}),
			RUNS,
		);
	});

	it("says in short and on one line what is wrong, and about no other field", () => {
		fc.assert(
			fc.property(mutated(good), ({ field: changed, raw }) => {
				const admission = admit(raw);
				const problems = admission.admitted ? [] : admission.problems;
				expect(problems.filter(({ field }) => !isAbout(field, changed))).toEqual([]);
				const lines = problemsOf(admission);
				expect(lines.filter((line) => !/^[^\p{Cc}]{6,260}$/u.test(line))).toEqual([]);
				expect(admission.admitted || problems.length > 0).toBe(true);
			}),
			RUNS,
		);
	});
});

it("each judge survives the objects of the others, and says the same twice", () => {
	const objects = fc.oneof(...JUDGES.map(({ good }) => rawOf(good)));
	fc.assert(
		fc.property(objects, (raw) => {
			for (const { admit } of JUDGES) expect(admit(raw)).toEqual(admit(raw));
		}),
		{ numRuns: 2_000 },
	);
});

function judge<T>(
	kind: string,
	admit: (raw: unknown) => Admission<T>,
	rulesOf: (object: T) => Readonly<Record<string, boolean>>,
	good: fc.Arbitrary<unknown>,
): Judge {
	return {
		kind,
		admit,
		broken(raw) {
			const admission = admit(raw);
			const rules = admission.admitted ? rulesOf(admission.object) : {};
			return Object.keys(rules).filter((rule) => rules[rule] !== true);
		},
		good,
	};
}

function rawOf(good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
	return mutated(good).map(({ raw }) => raw);
}

/** Fields that are judged together: a fault made in one may show in the other. */
const GROUPS: readonly RegExp[] = [
	/^spec\.clusterIP/,
	/^spec\.sessionAffinity/,
	/^spec\.ports/,
	/^(?:endpoints|addressType)/,
	/^ports/,
	/^subsets\[\d+\]\.ports/,
];

function isAbout(field: string, changed: string): boolean {
	return (
		field.startsWith(changed) ||
		changed.startsWith(field) ||
		GROUPS.some((group) => group.test(field) && group.test(changed)) ||
		// What kind of Service it is decides what it must have.
		(/^spec\.(?:type|clusterIP)/.test(changed) && field.startsWith("spec."))
	);
}

function rulesOfService({ kind, namespace, name, clusterIps, ports, sessionAffinity }: Service) {
	const numbers = new Set(ports.map(({ protocol, port }) => `${protocol} ${port}`));
	return {
		"names are DNS names": isDnsLabel(namespace) && isDnsLabel(name),
		"addressed means an address": (kind === "addressed") === clusterIps.length > 0,
		"addressed means a port": kind !== "addressed" || ports.length > 0,
		"one address a family": new Set(clusterIps.map(ipFamilyOf)).size === clusterIps.length,
		"ports are ports": ports.every(({ port }) => isAPort(port)),
		"port names are once": new Set(ports.map((port) => port.name)).size === ports.length,
		"port numbers are once": numbers.size === ports.length,
		"affinity lasts up to a day":
			sessionAffinity.type === "None" ||
			(sessionAffinity.timeoutMs >= 1_000 && sessionAffinity.timeoutMs <= 86_400_000),
	};
}

function rulesOfSlice({ namespace, name, family, ports, endpoints }: EndpointSlice) {
	const conditions = endpoints.flatMap(({ ready, serving, terminating }) => [
		ready,
		serving,
		terminating,
	]);
	return {
		"names are DNS names": isDnsLabel(namespace) && isDnsSubdomain(name),
		"addresses are of the family": endpoints.every(({ address }) => ipFamilyOf(address) === family),
		"ports are ports": ports.every(({ port }) => isAPort(port)),
		"conditions are true or false": conditions.every((each) => typeof each === "boolean"),
	};
}

function rulesOfNode({ name, addresses }: NodeInfo) {
	return {
		"names are DNS names": isDnsSubdomain(name),
		"addresses are addresses": addresses.every((address) => ipFamilyOf(address) !== undefined),
	};
}

/** On its own, so that the judges and their test cannot be wrong together. */
function isAPort(port: number): boolean {
	return Number.isInteger(port) && port > 0 && port < 65_536;
}
