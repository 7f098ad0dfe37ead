import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { SystemdNotifier, type SystemdOptions } from "../../../src/observe/systemd.ts";
import { aCapturedLog } from "./captured-log.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

function aNotifier(overrides: Partial<SystemdOptions> = {}) {
	const { log, lines } = aCapturedLog();
	const calls: string[][] = [];
	const notifier = new SystemdNotifier({
		env: { NOTIFY_SOCKET: "/run/systemd/notify" },
		pid: 42,
		runCommand: (file, args) => {
			calls.push([file, ...args]);
			return Promise.resolve();
		},
		isProgressing: () => true,
		log,
		monotonicUs: () => 123_456n,
		...overrides,
	});
	return { notifier, calls, lines };
}

const watched = { NOTIFY_SOCKET: "@x", WATCHDOG_USEC: "60000000" };

describe("SystemdNotifier", () => {
	it("does nothing without systemd", async () => {
		const { notifier, calls } = aNotifier({ env: { WATCHDOG_USEC: "1000" } });
		await notifier.ready("serving");
		await notifier.stopping("draining");
		await vi.advanceTimersByTimeAsync(1_000);
		expect(calls).toEqual([]);
		expect(vi.getTimerCount()).toBe(0);
	});

	it("tells of start, reload and stop", async () => {
		const { notifier, calls } = aNotifier();
		await notifier.ready("serving 3 services");
		await notifier.reloading();
		await notifier.stopping("draining");
		expect(calls).toEqual([
			["systemd-notify", "READY=1", "STATUS=serving 3 services"],
			["systemd-notify", "RELOADING=1", "MONOTONIC_USEC=123456"],
			["systemd-notify", "STOPPING=1", "STATUS=draining"],
		]);
	});

	it("sends a status only when it has changed", async () => {
		const { notifier, calls } = aNotifier();
		await notifier.ready("a");
		await notifier.status("a");
		await notifier.status("b");
		await notifier.status("b");
		expect(calls.slice(1)).toEqual([["systemd-notify", "STATUS=b"]]);
	});

	it("lets nobody smuggle a message in by a line break", async () => {
		const { notifier, calls } = aNotifier();
		await notifier.status("waiting for x\nMAINPID=1");
		expect(calls).toEqual([["systemd-notify", "STATUS=waiting for x\\u000aMAINPID=1"]]);
	});

	it("sends one message after the other, and not more than a few behind a slow one", async () => {
		let finish: () => void = () => {};
		const calls: string[] = [];
		const { notifier } = aNotifier({
			runCommand: (_, args) => {
				calls.push(args.join(" "));
				return new Promise<void>((resolve) => {
					finish = resolve;
				});
			},
		});
		for (let index = 0; index < 100; index += 1) void notifier.status(`${index}`);
		await vi.advanceTimersByTimeAsync(0);
		expect(calls).toEqual(["STATUS=0"]);
		for (let index = 0; index < 100; index += 1) {
			finish();
			// oxlint-disable-next-line no-await-in-loop -- each starts the next
			await vi.advanceTimersByTimeAsync(0);
		}
		expect(calls).toHaveLength(8);
	});

	it("never rejects, and says a failure once until it is over", async () => {
		const runCommand = vi
			.fn<SystemdOptions["runCommand"]>()
			.mockRejectedValueOnce(new Error("ENOENT"))
			.mockRejectedValueOnce(new Error("ENOENT"))
			.mockResolvedValue(undefined);
		const { notifier, lines } = aNotifier({ runCommand });
		await notifier.ready("a");
		await notifier.status("b");
		await notifier.status("c");
		expect(lines.map(({ level, message }) => [level, message])).toEqual([
			["warn", "cannot notify systemd"],
			["info", "systemd is notified again"],
		]);
	});
});

describe("the watchdog", () => {
	it("is told at half of its time", async () => {
		const { calls } = aNotifier({ env: watched });
		await vi.advanceTimersByTimeAsync(29_999);
		expect(calls).toEqual([]);
		await vi.advanceTimersByTimeAsync(30_001);
		expect(calls).toEqual([
			["systemd-notify", "WATCHDOG=1"],
			["systemd-notify", "WATCHDOG=1"],
		]);
	});

	it("is not told while the daemon makes no progress, and the log says why", async () => {
		let isProgressing = false;
		const { calls, lines } = aNotifier({ env: watched, isProgressing: () => isProgressing });
		await vi.advanceTimersByTimeAsync(90_000);
		expect(calls).toEqual([]);
		expect(lines[0]).toMatchObject({ level: "error" });
		isProgressing = true;
		await vi.advanceTimersByTimeAsync(30_000);
		expect(calls).toEqual([["systemd-notify", "WATCHDOG=1"]]);
	});

	it.each([
		["42", 1],
		["", 1],
		["41", 0],
	])("of process %s is ours: %d message", async (watchdogPid, messages) => {
		const { calls } = aNotifier({ env: { ...watched, WATCHDOG_PID: watchdogPid } });
		await vi.advanceTimersByTimeAsync(30_000);
		expect(calls).toHaveLength(messages);
	});

	it.each(["", "0", "-5", "soon"])("is off when its time is %j", (timeout) => {
		aNotifier({ env: { ...watched, WATCHDOG_USEC: timeout } });
		expect(vi.getTimerCount()).toBe(0);
	});

	it("hears nothing after close", async () => {
		const { notifier, calls } = aNotifier({ env: watched });
		await notifier.close();
		await vi.advanceTimersByTimeAsync(60_000);
		expect(calls).toEqual([]);
	});
});
