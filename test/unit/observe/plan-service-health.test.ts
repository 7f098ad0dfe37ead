import { describe, expect, test as it } from "vitest";
import { planServiceHealth } from "../../../src/observe/plan-service-health.ts";

const check = (name: string, port: number) => ({
	namespace: "shop",
	name,
	port,
	localEndpoints: 1,
});
const one = { perPort: 1, maxSockets: 10 };

describe("planServiceHealth()", () => {
	it("gives a port to the first that wants it, and tells the other whose it is", () => {
		const wanted = [check("cart", 31_001), check("web", 31_002), check("late", 31_001)];
		const { served, leftOut } = planServiceHealth(wanted, one);
		expect([...served]).toEqual([
			[31_001, wanted[0]],
			[31_002, wanted[1]],
		]);
		expect(leftOut).toEqual([
			{
				namespace: "shop",
				name: "late",
				port: 31_001,
				error: "port 31001 is the health check of shop/cart",
			},
		]);
	});

	it("serves the first ports only, as many as have sockets on every address", () => {
		const wanted = [1, 2, 3, 4].map((n) => check(`s${n}`, 31_000 + n));
		const { served, leftOut } = planServiceHealth(wanted, { perPort: 3, maxSockets: 8 });
		expect([...served.keys()]).toEqual([31_001, 31_002]);
		expect(leftOut.map(({ name, error }) => [name, error])).toEqual([
			["s3", "more than 8 listening sockets for health checks"],
			["s4", "more than 8 listening sockets for health checks"],
		]);
	});

	it("serves all that just fit", () => {
		const wanted = [1, 2].map((n) => check(`s${n}`, 31_000 + n));
		expect(planServiceHealth(wanted, { perPort: 5, maxSockets: 10 }).served.size).toBe(2);
	});
});
