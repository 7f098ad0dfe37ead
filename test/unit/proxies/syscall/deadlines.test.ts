import { describe, expect, test as it } from "vitest";
import { Deadlines } from "../../../../src/proxies/syscall/deadlines.ts";

describe("Deadlines", () => {
	it("run when they are due, whatever the order in which they were set", () => {
		const deadlines = new Deadlines();
		const ran: string[] = [];
		deadlines.after(500, 0, () => ran.push("late"));
		deadlines.after(100, 0, () => ran.push("soon"));
		deadlines.after(100, 50, () => ran.push("a little later"));
		expect(deadlines.nextInMs(0)).toBe(100);
		deadlines.run(99);
		expect(ran).toEqual([]);
		deadlines.run(100);
		expect(ran).toEqual(["soon"]);
		expect(deadlines.nextInMs(100)).toBe(50);
		deadlines.run(1_000);
		expect(new Set(ran)).toEqual(new Set(["soon", "a little later", "late"]));
		expect(deadlines.nextInMs(1_000)).toBe(Number.POSITIVE_INFINITY);
	});

	it("do nothing once they are cancelled, and wake nobody", () => {
		const deadlines = new Deadlines();
		const ran: string[] = [];
		const first = deadlines.after(100, 0, () => ran.push("first"));
		deadlines.after(100, 30, () => ran.push("second"));
		first.cancel();
		expect(deadlines.nextInMs(0)).toBe(130);
		deadlines.run(200);
		expect(ran).toEqual(["second"]);
	});

	it("may be set while others run, for at once too", () => {
		const deadlines = new Deadlines();
		const ran: string[] = [];
		deadlines.after(0, 0, () => {
			ran.push("first");
			deadlines.after(0, 0, () => ran.push("second"));
		});
		deadlines.run(0);
		deadlines.run(0);
		expect(ran).toEqual(["first", "second"]);
	});

	it("keep their order over ten thousand, most of them cancelled", () => {
		const deadlines = new Deadlines();
		const ran: number[] = [];
		for (let index = 0; index < 10_000; index += 1) {
			const deadline = deadlines.after(250, index, () => ran.push(index));
			if (index % 100 !== 0) deadline.cancel();
			deadlines.run(index);
		}
		deadlines.run(20_000);
		expect(ran).toEqual(Array.from({ length: 100 }, (_, index) => index * 100));
	});
});
