import { setImmediate } from "node:timers/promises";
import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { RulesDriver } from "../../../src/daemon/rules-driver.ts";
import { SyncMetrics } from "../../../src/observe/sync-metrics.ts";
import { CommandError, type CommandErrorCode } from "../../../src/rules/command-error.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { dns, web, web6 } from "../../kit/keeper.ts";
import { recordingLog } from "../../kit/recording-log.ts";

const { signal } = new AbortController();
let host: FakeXtables;
let driver: RulesDriver;
let lines: string[];

beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
	host = new FakeXtables();
	const recording = recordingLog();
	lines = recording.lines;
	driver = new RulesDriver({
		mode: "iptables",
		isAlone: true,
		env: {},
		metrics: new SyncMetrics(new Registry()),
		log: recording.log,
		clock: systemClock,
		runner: host,
	});
});
afterEach(() => {
	vi.useRealTimers();
});

/** The next so many restores of IPv4 fail. */
function failRestores(count: number, code: CommandErrorCode = "COMMAND_LOCK_HELD"): void {
	let left = count;
	host.failBefore = (command) => {
		if (!command.startsWith("iptables-nft-restore --noflush") || left === 0) return undefined;
		left -= 1;
		return new CommandError(code, { file: "iptables-nft-restore" });
	};
}

async function bringUp(bindings = [web, web6]): Promise<void> {
	await driver.bringUp(wantedRules(bindings), false, signal);
	lines.length = 0;
}

/** Lets pauses be over at once, whatever else has to end before each. */
const inTime = async <T>(work: Promise<T>): Promise<T> => {
	let isOver = false;
	const end = () => {
		isOver = true;
	};
	work.then(end, end);
	while (!isOver) {
		// oxlint-disable-next-line no-await-in-loop -- reading a file takes real time
		await setImmediate();
		// oxlint-disable-next-line no-await-in-loop -- the clock goes on
		await vi.advanceTimersByTimeAsync(100);
	}
	return await work;
};
const kernel = () => host.ipv4.save() + host.ipv6.save();

describe("RulesDriver on a host that it cannot use", () => {
	it.each([
		["without iptables", /./, "COMMAND_NOT_INSTALLED", /iptables is not installed/],
		// Versions are told to anybody.
		["without permission", /-save/, "COMMAND_NOT_PERMITTED", /root or CAP_NET_ADMIN/],
	] as const)(
		"fails with the reason, and works once it can: %s (case 36e, case 36f)",
		async (_, commands, code, reason) => {
			host.failBefore = (command) =>
				commands.test(command)
					? new CommandError(code, { file: command.split(" ")[0] ?? "" })
					: undefined;
			const bringUpOnce = async () => await driver.bringUp(wantedRules([web, web6]), false, signal);
			await expect(bringUpOnce()).rejects.toThrow(reason);
			expect(kernel()).not.toContain("KUBE");
			host.failBefore = () => undefined;
			await bringUpOnce();
			expect(kernel()).toContain("REDIRECT");
		},
	);
});

describe("RulesDriver at a stop", () => {
	it("removes at the first try without a word", async () => {
		await bringUp();
		await inTime(driver.captureOff(signal));
		expect(await inTime(driver.remove(signal))).toBe(true);
		expect(kernel()).not.toContain("KUBE");
		expect(lines).toEqual([]);
	});

	it("tries again to end capture and to remove, and says which of the two fails", async () => {
		await bringUp();
		failRestores(2);
		await inTime(driver.captureOff(signal));
		expect(kernel()).not.toContain("REDIRECT");
		failRestores(3);
		expect(await inTime(driver.remove(signal))).toBe(true);
		expect(kernel()).not.toContain("KUBE");
		expect(lines.map((line) => line.slice(0, line.indexOf(" {")))).toEqual([
			"warn cannot stop capturing new connections, trying again",
			"info new connections are captured no more",
			"warn cannot remove the packet rules, trying again",
			"info the packet rules are removed",
		]);
	});

	it("removes what captures still, however ending capture went", async () => {
		await bringUp();
		failRestores(1_000);
		const abort = new AbortController();
		const off = driver.captureOff(abort.signal);
		await vi.advanceTimersByTimeAsync(5_000);
		abort.abort();
		await off;
		expect(kernel()).toContain("REDIRECT");
		expect(lines.at(-1)).toMatch(
			/^warn cannot stop capturing new connections before the rules are removed .*"families":\["ipv4"\]/,
		);
		failRestores(0);
		expect(await inTime(driver.remove(signal))).toBe(true);
		expect(kernel()).not.toContain("KUBE");
	});

	it("gives up at the end of its time: families, reason and remedy in one error", async () => {
		await bringUp();
		failRestores(1_000);
		const abort = new AbortController();
		const removed = driver.remove(abort.signal);
		await vi.advanceTimersByTimeAsync(20_000);
		abort.abort();
		expect(await removed).toBe(false);
		expect(host.ipv6.save()).not.toContain("KUBE");
		const errors = lines.filter((line) => line.startsWith("error"));
		expect(errors).toEqual([
			'error cannot remove the packet rules {"families":["ipv4"],"error":"ipv4: Cannot run iptables-nft-restore: another program holds the xtables lock","remedy":"kube-userproxy cleanup"}',
		]);
	});

	it("removes a predecessor's rules when the stop comes before anything was known", async () => {
		await bringUp();
		const early = new RulesDriver({
			mode: "iptables",
			isAlone: true,
			env: {},
			metrics: new SyncMetrics(new Registry()),
			log: recordingLog().log,
			clock: systemClock,
			runner: host,
		});
		await early.captureOff(signal);
		expect(await early.remove(signal)).toBe(true);
		expect(kernel()).not.toContain("KUBE");
	});

	it.each(["COMMAND_NOT_INSTALLED", "COMMAND_NOT_PERMITTED", "COMMAND_NO_KERNEL_SUPPORT"] as const)(
		"has nothing to remove where nobody can have made rules: %s",
		async (code) => {
			host.failBefore = (command) => new CommandError(code, { file: command.split(" ")[0] ?? "" });
			expect(await inTime(driver.remove(signal))).toBe(true);
			expect(lines).toEqual([]);
		},
	);

	it("looks again where a first look fails that may succeed later", async () => {
		let failing = 2;
		host.failBefore = (command) =>
			command.endsWith("-save") && failing-- > 0
				? new CommandError("COMMAND_TIMED_OUT", { file: "iptables-nft-save" })
				: undefined;
		expect(await inTime(driver.remove(signal))).toBe(true);
		expect(lines).toEqual([
			expect.stringMatching(/^warn cannot remove the packet rules, trying again/),
			expect.stringMatching(/^info packet rules chosen/),
			expect.stringMatching(/^info the packet rules are removed/),
		]);
	});

	it("cannot tell whether rules are left where looking takes too long", async () => {
		host.hangs = () => true;
		const abort = new AbortController();
		const removed = driver.remove(abort.signal);
		abort.abort();
		expect(await removed).toBe(false);
		expect(lines).toEqual([
			expect.stringMatching(
				/^error cannot remove the packet rules {"families":\["ipv4","ipv6"\],.* it did not end in time"/,
			),
		]);
	});

	it("cleans UDP flows for the last time, and only tells of a conntrack that hangs", async () => {
		await bringUp([dns]);
		await driver.remove(signal);
		host.hangs = (command) => command.startsWith("conntrack");
		const abort = new AbortController();
		const cleaned = driver.cleanFlowsForTheLastTime(abort.signal);
		await vi.advanceTimersByTimeAsync(10);
		abort.abort();
		await cleaned;
		expect(lines).toEqual([
			expect.stringMatching(/^warn cannot delete stale UDP .*"conntrack did not end in time"/),
		]);
		host.hangs = () => false;
		await driver.cleanFlowsForTheLastTime(signal);
		expect(lines).toHaveLength(1);
	});
});

describe("RulesDriver", () => {
	it("cleans UDP flows on its own, tells what it deleted, and rejects when that fails", async () => {
		host.conntrack = [
			"udp 17 29 src=10.1.0.2 dst=10.96.0.53 sport=4000 dport=53 src=10.96.0.53 dst=10.1.0.2 sport=53 dport=4000 mark=0 use=1",
		];
		await bringUp([dns]);
		expect(host.ran.join()).not.toContain("conntrack -L");
		host.failBefore = (command) =>
			command.startsWith("conntrack")
				? new CommandError("COMMAND_TIMED_OUT", { file: "conntrack" })
				: undefined;
		await expect(driver.cleanFlows(signal)).rejects.toThrow(/^ipv4: .*did not end in time/);
		host.failBefore = () => undefined;
		await driver.cleanFlows(signal);
		expect(lines).toEqual([
			'info stale UDP conntrack entries deleted {"family":"ipv4","groups":1}',
		]);
	});
});
