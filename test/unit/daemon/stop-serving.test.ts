import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { STOP_MARGIN_MS, type StopParts, stopServing } from "../../../src/daemon/stop-serving.ts";
import { recordingLog } from "../../kit/recording-log.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

const untilAborted = (signal: AbortSignal): Promise<void> =>
	new Promise((resolve) => {
		if (signal.aborted) resolve();
		signal.addEventListener("abort", () => resolve(), { once: true });
	});
const after = (ms: number): Promise<void> =>
	new Promise((resolve) => {
		setTimeout(resolve, ms);
	});

/** A daemon of which every part writes down when it was asked for what, in ms since the stop. */
class Recorder {
	readonly calls: string[] = [];
	readonly hurry = Promise.withResolvers<void>();
	readonly log = recordingLog();
	readonly #beganAtMs = Date.now();
	connections = 0;
	rulesAreGone = true;
	/** What each step waits for; by default nothing. */
	captureOff: (signal: AbortSignal) => Promise<void> = () => Promise.resolve();
	remove: (signal: AbortSignal) => Promise<void> = () => Promise.resolve();
	cleanFlows: (signal: AbortSignal) => Promise<void> = () => Promise.resolve();
	closeHttp: () => Promise<void> = () => Promise.resolve();

	stop(drainTimeoutMs: number) {
		const engine: StopParts["engine"] = {
			stats: () => ({ tcpConnections: this.connections }) as never,
			drain: async (ms) => {
				this.#note(`drain for ${ms}`);
				if (ms > 0) await after(ms);
				return this.connections;
			},
			close: () => this.#step("close connections"),
		};
		return stopServing({
			sync: { stop: () => this.#step("stop sync") },
			rules: {
				captureOff: (signal) => this.#step("capture off", () => this.captureOff(signal)),
				remove: async (signal) => {
					await this.#step("remove", () => this.remove(signal));
					return this.rulesAreGone;
				},
				cleanFlowsForTheLastTime: (signal) =>
					this.#step("clean flows", () => this.cleanFlows(signal)),
			},
			engine,
			others: new Map([
				["sources", () => this.#step("close sources")],
				["HTTP servers", () => this.#step("close HTTP", this.closeHttp)],
			]),
			drainTimeoutMs,
			hurry: this.hurry.promise,
			log: this.log.log,
			clock: { wallMs: () => Date.now(), monotonicMs: () => Date.now() },
		});
	}

	#note(call: string): void {
		this.calls.push(`${Date.now() - this.#beganAtMs} ${call}`);
	}

	async #step(call: string, wait: () => Promise<void> = () => Promise.resolve()): Promise<void> {
		this.#note(call);
		await wait();
	}
}

const END = ["close sources", "close HTTP"];

describe("stopServing()", () => {
	it("ends capture before it waits, connections before the rules, and conntrack's entries last", async () => {
		const recorder = new Recorder();
		recorder.connections = 2;
		const stopped = recorder.stop(300);
		await vi.advanceTimersByTimeAsync(300);
		expect(await stopped).toEqual({ rulesAreGone: true });
		expect(recorder.calls).toEqual([
			"0 stop sync",
			"0 capture off",
			"0 drain for 300",
			...["close connections", "remove", "clean flows", ...END].map((call) => `300 ${call}`),
		]);
		expect(recorder.log.lines).toEqual([
			'info waiting for connections to end {"connections":2,"timeoutMs":300}',
			'warn connections are cut off {"connections":2}',
		]);
	});

	it("takes what ending capture takes off the drain time", async () => {
		const recorder = new Recorder();
		recorder.connections = 1;
		recorder.captureOff = () => after(1_200);
		const stopped = recorder.stop(3_000);
		await vi.advanceTimersByTimeAsync(3_000);
		await stopped;
		expect(recorder.calls).toContain("1200 drain for 1800");
		expect(recorder.calls.at(-1)).toBe("3000 close HTTP");
	});

	it("goes on trying to end capture while it drains, and no longer", async () => {
		const recorder = new Recorder();
		recorder.connections = 1;
		let endedAfterMs = 0;
		const beganAtMs = Date.now();
		recorder.captureOff = async (signal) => {
			await untilAborted(signal);
			endedAfterMs = Date.now() - beganAtMs;
		};
		const stopped = recorder.stop(30_000);
		await vi.advanceTimersByTimeAsync(30_000);
		await stopped;
		expect(recorder.calls).toContain("6000 drain for 24000");
		expect(endedAfterMs).toBe(30_000);
		expect(recorder.calls.at(-1)).toBe("30000 close HTTP");
	});

	it("waits a moment for capture to end even with nothing to drain", async () => {
		const recorder = new Recorder();
		recorder.captureOff = untilAborted;
		const stopped = recorder.stop(30_000);
		await vi.advanceTimersByTimeAsync(6_000);
		await stopped;
		expect(recorder.calls).toContain("6000 remove");
	});

	it("a hurry ends the drain and nothing else", async () => {
		const recorder = new Recorder();
		recorder.connections = 1;
		const stopped = recorder.stop(3_600_000);
		await vi.advanceTimersByTimeAsync(10);
		recorder.hurry.resolve();
		await vi.advanceTimersByTimeAsync(0);
		expect(await stopped).toEqual({ rulesAreGone: true });
		expect(recorder.calls).toContain("10 remove");
	});

	it("whatever hangs, it ends within the drain time and the margin (case 39a)", async () => {
		const recorder = new Recorder();
		recorder.connections = 1;
		recorder.captureOff = untilAborted;
		recorder.remove = untilAborted;
		recorder.cleanFlows = untilAborted;
		recorder.closeHttp = () => new Promise(() => {});
		const stopped = recorder.stop(0);
		await vi.advanceTimersByTimeAsync(STOP_MARGIN_MS);
		expect(await stopped).toEqual({ rulesAreGone: true });
		expect(recorder.calls.slice(-4)).toEqual([
			"6000 remove",
			"26000 clean flows",
			"29000 close sources",
			"29000 close HTTP",
		]);
		expect(recorder.log.lines.at(-1)).toBe(
			'warn not everything has closed in time {"open":["HTTP servers"]}',
		);
	});

	it("says that rules are left, and leaves their flows alone", async () => {
		const recorder = new Recorder();
		recorder.rulesAreGone = false;
		expect(await recorder.stop(30_000)).toEqual({ rulesAreGone: false });
		expect(recorder.calls).toEqual([
			"0 stop sync",
			"0 capture off",
			"0 close connections",
			"0 remove",
			...END.map((call) => `0 ${call}`),
		]);
	});

	it("takes the longest drain time that there is", async () => {
		const recorder = new Recorder();
		expect(await recorder.stop(2_147_483_647)).toEqual({ rulesAreGone: true });
	});
});
