import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { parseAllDocuments } from "yaml";
import { DEFAULT_TIMING } from "../../../../src/sources/kubernetes/connections.ts";
import { DEFAULT_LIMITS } from "../../../../src/sources/kubernetes/limits.ts";
import {
	nodeResource,
	serviceCidrsResource,
	servicesResource,
	slicesResource,
} from "../../../../src/sources/kubernetes/resources.ts";

describe("what the documents promise of the cluster source", () => {
	it("a peer that is gone is noticed within a minute", () => {
		// An unanswered ping is noticed when the next one is due.
		expect(2 * DEFAULT_TIMING.pingMs).toBeLessThan(60_000);
		expect(DEFAULT_LIMITS.watchIdleMs).toBeLessThan(60_000);
		// A quiet watch that is well ends before it looks dead, and late enough for the API server.
		const [shortest, longest] = DEFAULT_LIMITS.quietWatchTimeoutMs;
		expect(longest).toBeLessThan(DEFAULT_LIMITS.watchIdleMs - 5_000);
		expect(shortest).toBeGreaterThanOrEqual(40_000);
		expect(DEFAULT_LIMITS.watchHeadersMs).toBeLessThan(60_000);
		expect(DEFAULT_TIMING.connectMs).toBeLessThan(60_000);
	});

	it("deploy/rbac.yaml allows to list and watch exactly what is read", () => {
		const text = readFileSync(new URL("../../../../deploy/rbac.yaml", import.meta.url), "utf8");
		const documents = parseAllDocuments(text).map((document) => document.toJS() as RbacObject);
		const rules = documents.find(({ kind }) => kind === "ClusterRole")?.rules ?? [];
		const allowed = rules
			.filter(({ verbs }) => verbs.includes("list") && verbs.includes("watch"))
			.flatMap(({ apiGroups, resources }) =>
				apiGroups.flatMap((group) => resources.map((plural) => `${group}/${plural}`)),
			);
		const read = [
			servicesResource(undefined),
			slicesResource("v1"),
			slicesResource("v1beta1"),
			slicesResource("endpoints"),
			nodeResource("node1"),
			serviceCidrsResource("v1"),
			serviceCidrsResource("v1beta1"),
		].map(({ group, plural }) => `${group}/${plural}`);
		expect(new Set(allowed)).toEqual(new Set(read));
		expect(rules.flatMap(({ verbs }) => verbs)).not.toContain("*");
	});
});

interface RbacObject {
	readonly kind: string;
	readonly rules?: readonly {
		readonly apiGroups: readonly string[];
		readonly resources: readonly string[];
		readonly verbs: readonly string[];
	}[];
}
