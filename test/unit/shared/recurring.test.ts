import { describe, expect, test as it } from "vitest";
import type { Log } from "../../../src/shared/log.ts";
import { silentLog } from "../../../src/shared/log.ts";
import { RecurringFailure } from "../../../src/shared/recurring.ts";

interface Fields {
	readonly error?: string;
	readonly failures?: number;
	readonly unreported?: number;
}

function aFailure() {
	const lines: { level: string; message: string; fields: Fields }[] = [];
	const at =
		(level: string): Log["warn"] =>
		(fields, message) => {
			lines.push({ level, message, fields: { ...fields } });
		};
	let nowMs = 1_000;
	const failure = new RecurringFailure({
		log: { ...silentLog, error: at("error"), warn: at("warn"), info: at("info") },
		failing: "cannot do it",
		recovered: "done again",
		summaryMs: 60_000,
		clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
	});
	return { failure, lines, pass: (ms: number) => (nowMs += ms) };
}

describe("RecurringFailure", () => {
	it("says nothing about successes", () => {
		const { failure, lines } = aFailure();
		failure.succeeded();
		expect(lines).toEqual([]);
		expect(failure.problem).toBeUndefined();
	});

	it("logs when it begins and when it ends, with the count and the time", () => {
		const { failure, lines, pass } = aFailure();
		for (let index = 0; index < 5; index += 1) {
			failure.failed("connection refused", { source: "a" });
			pass(2_000);
		}
		expect(failure.problem).toBe("connection refused");
		failure.succeeded({ source: "a" });
		expect(lines).toEqual([
			{
				level: "warn",
				message: "cannot do it",
				fields: { source: "a", error: "connection refused", failures: 1, failingForS: 0 },
			},
			{
				level: "info",
				message: "done again",
				fields: { source: "a", failures: 5, failingForS: 10, unreported: 4 },
			},
		]);
		expect(failure.problem).toBeUndefined();
	});

	it("counts many at once", () => {
		const { failure, lines } = aFailure();
		failure.failed("refused", {}, 5);
		failure.failed("refused", {}, 10);
		failure.succeeded();
		expect(lines.map(({ fields }) => fields)).toMatchObject([
			{ failures: 5 },
			{ failures: 15, unreported: 10 },
		]);
	});

	it("logs when the text changes", () => {
		const { failure, lines } = aFailure();
		failure.failed("refused");
		failure.failed("refused");
		failure.failed("timeout");
		expect(lines.map(({ fields }) => fields.error)).toEqual(["refused", "timeout"]);
		expect(lines[1]?.fields.unreported).toBe(1);
	});

	it("repeats itself once per summary interval (case 39d)", () => {
		const { failure, lines, pass } = aFailure();
		for (let second = 0; second <= 180; second += 1) {
			failure.failed("refused");
			pass(1_000);
		}
		expect(lines.map(({ fields }) => fields.failures)).toEqual([1, 61, 121, 181]);
	});

	it("writes at most eight failing lines per interval when each text is new (case 39d)", () => {
		const { failure, lines } = aFailure();
		for (let index = 0; index < 1_000; index += 1) failure.failed(`attempt ${index}`);
		expect(lines).toHaveLength(8);
	});

	it("stays quiet after eight lines when it flaps, and tells the rest in the next interval", () => {
		const { failure, lines, pass } = aFailure();
		for (let index = 0; index < 100; index += 1) {
			failure.failed("refused");
			failure.succeeded();
		}
		expect(lines).toHaveLength(16);
		pass(60_000);
		failure.failed("refused");
		expect(lines).toHaveLength(17);
		expect(lines[16]?.fields).toMatchObject({ failures: 1, unreported: 92 });
	});
});

describe("RecurringFailure.sweep(), where no success is ever told", () => {
	const said = (lines: readonly { readonly message: string }[]) =>
		lines.map(({ message }) => message);

	it("says a failure once, however often it comes", () => {
		const { failure, lines } = aFailure();
		for (let index = 0; index < 1_000; index += 1) failure.failed("EMFILE");
		failure.sweep();
		failure.failed("EMFILE");
		failure.sweep();
		expect(said(lines)).toEqual(["cannot do it"]);
	});

	it("says the end, with the count, after a whole time without it", () => {
		const { failure, lines } = aFailure();
		failure.failed("EMFILE", { service: "a" });
		failure.failed("EMFILE", { service: "a" });
		failure.sweep();
		failure.sweep();
		failure.sweep();
		expect(lines).toMatchObject([
			{ level: "warn", message: "cannot do it", fields: { service: "a", error: "EMFILE" } },
			{ level: "info", message: "done again", fields: { failures: 2 } },
		]);
		expect(failure.problem).toBeUndefined();
	});

	it("begins anew after an end", () => {
		const { failure, lines } = aFailure();
		for (let round = 0; round < 2; round += 1) {
			failure.failed("EMFILE");
			failure.sweep();
			failure.sweep();
		}
		expect(said(lines)).toEqual(["cannot do it", "done again", "cannot do it", "done again"]);
	});

	it("says nothing when nothing happened", () => {
		const { failure, lines } = aFailure();
		failure.sweep();
		expect(lines).toEqual([]);
	});
});
