import { describe, expect, test as it } from "vitest";
import { type HealthFacts, judgeHealth } from "../../../src/observe/health.ts";

function someFacts(overrides: Partial<HealthFacts> = {}): HealthFacts {
	return {
		syncPeriodMs: 30_000,
		families: [
			{ family: "ipv4", pendingMs: undefined, syncedAgoMs: 5_000 },
			{ family: "ipv6", pendingMs: undefined, syncedAgoMs: 5_000 },
		],
		runners: [
			{ name: "model", queuedMs: undefined, runningMs: undefined },
			{ name: "rules", queuedMs: undefined, runningMs: undefined },
		],
		firstSyncDone: true,
		stopping: false,
		sources: [{ name: "manifests /m", synced: true, ageMs: 0, failing: false }],
		...overrides,
	};
}

const allTrue = { progressing: true, live: true, healthy: true, ready: true, reasons: [] };

describe("judgeHealth()", () => {
	it("is content with a quiet daemon (classic 9.7.4)", () => {
		expect(judgeHealth(someFacts())).toEqual({
			...allTrue,
			families: [
				{ family: "ipv4", healthy: true },
				{ family: "ipv6", healthy: true },
			],
		});
	});

	it("is healthy and not ready before the first sync, and says what it waits for (classic 9.7.4)", () => {
		const sources = [{ name: "kubernetes x", synced: false, ageMs: undefined, failing: true }];
		expect(judgeHealth(someFacts({ firstSyncDone: false, sources }))).toMatchObject({
			healthy: true,
			ready: false,
			reasons: ["waiting for kubernetes x"],
		});
		expect(judgeHealth(someFacts({ firstSyncDone: false })).reasons).toEqual([
			"the first sync is not done",
		]);
	});

	it("is healthy and not ready once a stop has begun", () => {
		expect(judgeHealth(someFacts({ stopping: true }))).toMatchObject({
			healthy: true,
			ready: false,
			reasons: ["stopping"],
		});
	});

	it("stays ready however old a source's state is (case 3g)", () => {
		const sources = [{ name: "kubernetes x", synced: true, ageMs: 3_600_000, failing: true }];
		expect(judgeHealth(someFacts({ sources }))).toMatchObject(allTrue);
	});

	it.each([
		[60_000, true],
		[60_001, false],
	])(
		"with a change pending for %d ms at a period of 30 s: live %s (classic 9.7.4)",
		(pendingMs, live) => {
			const verdict = judgeHealth(
				someFacts({ families: [{ family: "ipv4", pendingMs, syncedAgoMs: 90_000 }] }),
			);
			expect([verdict.live, verdict.healthy, verdict.ready]).toEqual([live, live, live]);
			expect(verdict.families).toEqual([{ family: "ipv4", healthy: live }]);
		},
	);

	it("calls a sync that fails late but progressing, so that nobody restarts it in vain", () => {
		const verdict = judgeHealth(
			someFacts({ families: [{ family: "ipv6", pendingMs: 500_000, syncedAgoMs: undefined }] }),
		);
		expect(verdict).toMatchObject({
			progressing: true,
			live: false,
			reasons: ["ipv6 rules are late by 500 s"],
		});
	});

	it.each(["queuedMs", "runningMs"] as const)("calls a runner hung by its %s", (field) => {
		const runner = { name: "rules", queuedMs: undefined, runningMs: undefined };
		const at = (ms: number) => judgeHealth(someFacts({ runners: [{ ...runner, [field]: ms }] }));
		expect(at(60_000).progressing).toBe(true);
		expect(at(60_001)).toMatchObject({
			progressing: false,
			live: false,
			reasons: ["the rules sync makes no progress"],
		});
	});

	it("does not call a slow run hung when the period is short", () => {
		const runners = [{ name: "rules", queuedMs: undefined, runningMs: 50_000 }];
		expect(judgeHealth(someFacts({ syncPeriodMs: 1_000, runners })).progressing).toBe(true);
	});

	it("is live and not healthy on a node that is about to be removed", () => {
		expect(judgeHealth(someFacts({ nodeEligible: false }))).toMatchObject({
			live: true,
			healthy: false,
			ready: false,
		});
	});
});
