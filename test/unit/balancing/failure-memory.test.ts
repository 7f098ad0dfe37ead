import { describe, expect, test as it } from "vitest";
import { FailureMemory } from "../../../src/balancing/failure-memory.ts";

function aMemory() {
	const clock = { nowMs: 0 };
	return { memory: new FailureMemory(() => clock.nowMs), clock };
}

describe("FailureMemory", () => {
	it("avoids an endpoint for a second after its first failure", () => {
		const { memory, clock } = aMemory();
		expect(memory.isAvoided("a")).toBe(false);
		memory.failed("a");
		clock.nowMs = 999;
		expect(memory.isAvoided("a")).toBe(true);
		expect(memory.isAvoided("b")).toBe(false);
		clock.nowMs = 1000;
		expect(memory.isAvoided("a")).toBe(false);
	});

	it("counts failures of tries that were made at the same time as one", () => {
		const { memory, clock } = aMemory();
		for (let index = 0; index < 50; index += 1) memory.failed("a");
		clock.nowMs = 1000;
		expect(memory.isAvoided("a")).toBe(false);
	});

	it("lets one connection find out after the penalty, and keeps the others away", () => {
		const { memory, clock } = aMemory();
		memory.failed("a");
		clock.nowMs = 1000;
		memory.picked("a");
		expect(memory.isAvoided("a")).toBe(true);
	});

	it("tries again when the one that was to find out never reported", () => {
		const { memory, clock } = aMemory();
		memory.failed("a");
		clock.nowMs = 1000;
		memory.picked("a");
		clock.nowMs = 4000;
		expect(memory.isAvoided("a")).toBe(false);
	});

	it("doubles the penalty with each failed try after it, up to a minute", () => {
		const { memory, clock } = aMemory();
		memory.failed("a");
		const penalties: number[] = [];
		for (let round = 0; round < 8; round += 1) {
			const beganAtMs = clock.nowMs;
			while (memory.isAvoided("a")) clock.nowMs += 500;
			penalties.push(clock.nowMs - beganAtMs);
			memory.picked("a");
			memory.failed("a");
		}
		expect(penalties).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
	});

	it("does not lengthen the penalty when a last resort fails during it", () => {
		const { memory, clock } = aMemory();
		memory.failed("a");
		clock.nowMs = 900;
		memory.picked("a");
		memory.failed("a");
		clock.nowMs = 1000;
		expect(memory.isAvoided("a")).toBe(false);
	});

	it("forgets everything about an endpoint that answered", () => {
		const { memory, clock } = aMemory();
		memory.failed("a");
		clock.nowMs = 1000;
		memory.picked("a");
		memory.failed("a");
		memory.answered("a");
		expect(memory.isAvoided("a")).toBe(false);
		memory.failed("a");
		clock.nowMs = 2000;
		expect(memory.isAvoided("a")).toBe(false);
	});

	it("forgets endpoints that are gone", () => {
		const { memory } = aMemory();
		memory.failed("a");
		memory.failed("b");
		memory.keepOnly(new Set(["b"]));
		expect(memory.size).toBe(1);
		expect(memory.isAvoided("a")).toBe(false);
		expect(memory.isAvoided("b")).toBe(true);
	});
});
