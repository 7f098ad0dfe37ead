import { readdirSync } from "node:fs";
import { expect, test as it } from "vitest";
import { testSystemCalls } from "../../../../src/proxies/syscall/self-test.ts";

it("testSystemCalls() finds that this machine has them, and leaves nothing open", () => {
	const before = readdirSync("/proc/self/fd").length;
	testSystemCalls();
	expect(readdirSync("/proc/self/fd").length).toBe(before);
});
