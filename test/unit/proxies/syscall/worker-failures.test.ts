import { afterEach, beforeEach, expect, test as it, vi } from "vitest";
import { WorkerFailures } from "../../../../src/proxies/syscall/worker-failures.ts";
import { aLog } from "../builders.ts";

beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});

afterEach(() => {
	vi.useRealTimers();
});

it("WorkerFailures counts all, knows the last, and says that it began and that it is over", () => {
	const { log, lines } = aLog();
	const failures = new WorkerFailures(log, { wallMs: () => 7, monotonicMs: () => 0 });
	expect([failures.count, failures.last]).toEqual([0, undefined]);
	const cause = new TypeError("a bug");
	for (let round = 0; round < 100; round += 1) failures.happened(1, cause);
	expect([failures.count, failures.last]).toEqual([100, { atMs: 7, error: "a bug" }]);
	for (let minute = 0; minute < 3; minute += 1) vi.advanceTimersToNextTimer();
	expect(lines).toMatchObject([
		{ level: "error", fields: { worker: 1, error: cause.stack } },
		{ level: "info", fields: { failures: 100 } },
	]);
	failures.close();
	expect(vi.getTimerCount()).toBe(0);
});

it("WorkerFailures takes whatever was thrown", () => {
	const { log } = aLog();
	const failures = new WorkerFailures(log, { wallMs: () => 7, monotonicMs: () => 0 });
	failures.happened(0, "out of luck");
	expect(failures.last).toEqual({ atMs: 7, error: "out of luck" });
	failures.close();
});
