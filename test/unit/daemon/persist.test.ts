import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { persist, type Undone } from "../../../src/daemon/persist.ts";
import { CommandError, type CommandErrorCode } from "../../../src/rules/command-error.ts";
import { recordingLog } from "../../kit/recording-log.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

const failed = (code: CommandErrorCode, family: "ipv4" | "ipv6" = "ipv4"): Undone => ({
	family,
	error: new CommandError(code, { file: "iptables-restore" }),
});

/** Tries that come to what is listed, one after the other; the last again and again. */
function trying(answers: readonly (readonly Undone[])[]) {
	const { log, lines } = recordingLog();
	const abort = new AbortController();
	let tries = 0;
	const ended = persist({
		attempt: () => {
			tries += 1;
			if (abort.signal.aborted) return Promise.resolve([failed("COMMAND_CANCELED")]);
			return Promise.resolve(answers[Math.min(tries, answers.length) - 1] ?? []);
		},
		signal: abort.signal,
		failing: "cannot do it, trying again",
		recovered: "it is done",
		log,
		clock: { wallMs: () => Date.now(), monotonicMs: () => Date.now() },
	});
	return { ended, abort, lines, tries: () => tries };
}

it("what succeeds at once is no news", async () => {
	const { ended, lines, tries } = trying([[]]);
	expect(await ended).toEqual([]);
	expect({ tries: tries(), lines }).toEqual({ tries: 1, lines: [] });
});

it("what fails is tried again with growing waits, told when it begins and when it is over", async () => {
	const busy = [failed("COMMAND_LOCK_HELD")];
	const { ended, lines, tries } = trying([busy, busy, busy, []]);
	await vi.advanceTimersByTimeAsync(150);
	expect(tries()).toBe(1);
	await vi.advanceTimersByTimeAsync(100);
	expect(tries()).toBe(2);
	await vi.advanceTimersByTimeAsync(250);
	expect(tries()).toBe(2);
	await vi.advanceTimersByTimeAsync(5_000);
	expect(await ended).toEqual([]);
	expect(tries()).toBe(4);
	expect(lines).toEqual([
		expect.stringMatching(/^warn cannot do it, trying again .*ipv4: Cannot run .* xtables lock/),
		expect.stringMatching(/^info it is done/),
	]);
});

it("ends with the signal, also while it waits, and tells the failure and not its own end", async () => {
	const busy = [failed("COMMAND_LOCK_HELD"), failed("COMMAND_TIMED_OUT", "ipv6")];
	const { ended, abort } = trying([busy]);
	await vi.advanceTimersByTimeAsync(60_000);
	abort.abort();
	expect(await ended).toEqual(busy);
});

it("tells its own end where nothing had failed before", async () => {
	const { ended, abort } = trying([[]]);
	abort.abort();
	await ended;
	const second = persist({
		attempt: () => Promise.resolve([failed("COMMAND_CANCELED")]),
		signal: AbortSignal.abort(),
		failing: "",
		recovered: "",
		log: recordingLog().log,
		clock: { wallMs: () => 0, monotonicMs: () => 0 },
	});
	expect(await second).toMatchObject([{ error: { code: "COMMAND_CANCELED" } }]);
});

it("does not wait for what waiting does not mend, but for the other family", async () => {
	const forbidden = failed("COMMAND_NOT_PERMITTED", "ipv6");
	const alone = trying([[forbidden]]);
	expect(await alone.ended).toEqual([forbidden]);
	expect({ tries: alone.tries(), lines: alone.lines }).toEqual({ tries: 1, lines: [] });

	const both = trying([[failed("COMMAND_LOCK_HELD"), forbidden], [forbidden]]);
	await vi.advanceTimersByTimeAsync(1_000);
	expect(await both.ended).toEqual([forbidden]);
	expect(both.tries()).toBe(2);
});
