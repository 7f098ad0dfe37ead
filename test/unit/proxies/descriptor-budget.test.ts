import { describe, expect, test as it } from "vitest";
import { DescriptorBudget, planDescriptors } from "../../../src/proxies/descriptor-budget.ts";

describe("DescriptorBudget", () => {
	it("gives until the limit and not one more", () => {
		const budget = new DescriptorBudget(5);
		expect([budget.tryTake(2), budget.tryTake(2), budget.tryTake(2)]).toEqual([true, true, false]);
		expect(budget.used).toBe(4);
		expect(budget.tryTake(1)).toBe(true);
	});

	it("gives again what came back", () => {
		const budget = new DescriptorBudget(2);
		budget.tryTake(2);
		budget.give(2);
		expect(budget.tryTake(2)).toBe(true);
	});

	it("leaves what the caller wants to spare", () => {
		const budget = new DescriptorBudget(4);
		expect(budget.tryTake(1, 4)).toBe(false);
		expect(budget.tryTake(1, 3)).toBe(true);
	});

	it("counts what is open already beyond the limit, and gives nothing then", () => {
		const budget = new DescriptorBudget(1);
		budget.take(3);
		expect(budget.tryTake(1)).toBe(false);
		budget.give(3);
		expect(budget.tryTake(1)).toBe(true);
	});

	it.each([0, -1, 1.5, Number.NaN])("refuses a limit of %s", (limit) => {
		expect(() => new DescriptorBudget(limit)).toThrow(RangeError);
	});
});

describe("planDescriptors()", () => {
	it.each([
		[256, { relaying: 168, waiting: 24, http: 10 }],
		[1024, { relaying: 784, waiting: 112, http: 42 }],
		[20_000, { relaying: 18_464, waiting: 1024, http: 128 }],
		[1_048_576, { relaying: 1_047_040, waiting: 1024, http: 128 }],
	])("divides %i", (softLimit, plan) => {
		expect(planDescriptors(softLimit)).toEqual(plan);
	});

	it("leaves worker threads what they have open themselves", () => {
		expect(planDescriptors(256, 2)).toEqual({ relaying: 154, waiting: 22, http: 10 });
	});

	it.each([0, 10, 64, 100])(
		"never plans more than there is when there are %i, or makes do",
		(limit) => {
			const { relaying, waiting } = planDescriptors(limit);
			expect(relaying).toBeGreaterThanOrEqual(4);
			expect(relaying + waiting).toBeLessThanOrEqual(Math.max(4, limit));
		},
	);
});

describe("planDescriptors() for HTTP", () => {
	it.each([128, 256, 512, 1024, 2048, 4096, 65_536])(
		"leaves 40 of %i when all of HTTP and of the relay is taken",
		(limit) => {
			const { relaying, waiting, http } = planDescriptors(limit);
			expect(relaying + waiting + 2 * http).toBeLessThanOrEqual(limit - 40);
			expect(http).toBeGreaterThanOrEqual(10);
		},
	);
});
