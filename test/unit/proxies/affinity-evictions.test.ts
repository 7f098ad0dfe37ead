import { afterEach, beforeEach, expect, test as it, vi } from "vitest";
import { AffinityEvictions } from "../../../src/proxies/affinity-evictions.ts";
import { aLog } from "./builders.ts";

beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});

afterEach(() => {
	vi.useRealTimers();
});

it("AffinityEvictions counts all, and says that it began and that it is over", () => {
	const { log, lines } = aLog();
	const evictions = new AffinityEvictions(log, { wallMs: () => 0, monotonicMs: () => 0 });
	for (let count = 0; count < 1000; count += 1) evictions.happened();
	for (let minute = 0; minute < 3; minute += 1) vi.advanceTimersToNextTimer();
	expect(evictions.count).toBe(1000);
	expect(lines).toMatchObject([{ level: "warn" }, { level: "info", fields: { failures: 1000 } }]);
	evictions.close();
	expect(vi.getTimerCount()).toBe(0);
});
