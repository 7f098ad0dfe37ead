import { readdirSync } from "node:fs";
import { expect, test as it } from "vitest";
import { findRingProblem } from "../../../../src/proxies/syscall/ring-self-test.ts";

it("findRingProblem() finds none on this machine, and leaves nothing open", () => {
	const before = readdirSync("/proc/self/fd").length;
	expect(findRingProblem()).toBeUndefined();
	expect(readdirSync("/proc/self/fd").length).toBe(before);
});
