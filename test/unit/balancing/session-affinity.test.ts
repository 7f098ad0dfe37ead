import { describe, expect, test as it } from "vitest";
import { SessionAffinity } from "../../../src/balancing/session-affinity.ts";
import { aClient } from "./builders.ts";

function aTable(maxClients?: number) {
	const clock = { nowMs: 0 };
	return { affinity: new SessionAffinity(() => clock.nowMs, maxClients), clock };
}

describe("SessionAffinity", () => {
	it("knows nobody at first", () => {
		expect(aTable().affinity.find(aClient(1), 1000)).toBeUndefined();
	});

	it("remembers until just before the timeout", () => {
		const { affinity, clock } = aTable();
		affinity.set(aClient(1), "a", "kept");
		clock.nowMs = 999;
		expect(affinity.find(aClient(1), 1000)?.endpointKey).toBe("a");
	});

	it("forgets at the timeout (classic 9.1.33, 9.8.5)", () => {
		const { affinity, clock } = aTable();
		affinity.set(aClient(1), "a", "kept");
		clock.nowMs = 1000;
		expect(affinity.find(aClient(1), 1000)).toBeUndefined();
		expect(affinity.size).toBe(0);
	});

	it("starts the timeout anew with each look", () => {
		const { affinity, clock } = aTable();
		affinity.set(aClient(1), "a", "kept");
		for (clock.nowMs = 900; clock.nowMs < 9000; clock.nowMs += 900) {
			expect(affinity.find(aClient(1), 1000)?.endpointKey).toBe("a");
		}
	});

	it("applies a new timeout to clients that it knows (classic 9.1.33)", () => {
		const { affinity, clock } = aTable();
		affinity.set(aClient(1), "a", "kept");
		clock.nowMs = 5000;
		expect(affinity.find(aClient(1), 10_000)).toBeDefined();
		clock.nowMs = 7000;
		expect(affinity.find(aClient(1), 1000)).toBeUndefined();
	});

	it("forgets the client not seen for the longest when full, and counts it", () => {
		const { affinity } = aTable(2);
		affinity.set(aClient(1), "a", "kept");
		affinity.set(aClient(2), "b", "kept");
		affinity.find(aClient(1), 1000);
		affinity.set(aClient(3), "c", "kept");
		expect(affinity.size).toBe(2);
		expect(affinity.find(aClient(2), 1000)).toBeUndefined();
		expect(affinity.find(aClient(1), 1000)).toBeDefined();
		expect(affinity.evictions).toBe(1);
	});
});
