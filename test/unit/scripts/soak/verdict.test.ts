import { describe, expect, test as it } from "vitest";
import {
	type Account,
	accountProblems,
	areBack,
	exactly,
	HEAP_ALLOWANCE,
	IDLE_PIPE_ENDS,
	judgeSteadiness,
	NO_ACCOUNT,
	RESIDENT_ALLOWANCE,
	sumOf,
} from "../../../../scripts/soak/verdict.ts";
import { seededRandom } from "../../../kit/faulty-runner.ts";

const MIB = 1024 * 1024;

describe("judgeSteadiness()", () => {
	/** 60 samples around 40 MiB. */
	const samples = (at: (index: number) => number) => {
		const random = seededRandom(1);
		return Array.from({ length: 60 }, (_, index) => (40 + at(index) + random() * 0.2) * MIB);
	};
	const isSteady = (at: (index: number) => number) =>
		judgeSteadiness(samples(at), HEAP_ALLOWANCE).isSteady;

	it("is content with what stays as it is, and with what warms up in the first third", () => {
		expect(isSteady(() => 0)).toBe(true);
		expect(isSteady((index) => Math.min(index, 20))).toBe(true);
	});

	it("is content with bursts, and with what becomes less", () => {
		expect(isSteady((index) => (index % 3 === 0 ? 30 : 0))).toBe(true);
		expect(isSteady((index) => -index / 10)).toBe(true);
	});

	it("finds what grows all the time, also between bursts", () => {
		expect(isSteady((index) => index / 10)).toBe(false);
		expect(isSteady((index) => index / 10 + (index % 3 === 0 ? 30 : 0))).toBe(false);
	});

	it("tells both medians and the limit", () => {
		const values = Array.from({ length: 30 }, (_, index) => index);
		const found = judgeSteadiness(values, { ratio: 2, bytes: 1 });
		expect(found).toEqual({ isSteady: true, middle: 14.5, last: 24.5, limit: 30 });
	});

	it("says nothing of too few", () => {
		expect(() => judgeSteadiness([1, 2, 3], RESIDENT_ALLOWANCE)).toThrow("3 samples");
	});
});

it("areBack() says whether no kind of descriptor has become more, but for idle pipes", () => {
	const before = new Map([
		["socket", 10],
		["pipe", 4],
	]);
	const after = (socket: number, pipe: number, file = 0) =>
		new Map([
			["socket", socket],
			["pipe", pipe],
			["file", file],
		]);
	expect(areBack(before, after(10, 4))).toBe(true);
	expect(areBack(before, after(9, 4 + IDLE_PIPE_ENDS))).toBe(true);
	expect(areBack(before, after(11, 4))).toBe(false);
	expect(areBack(before, after(10, 5 + IDLE_PIPE_ENDS))).toBe(false);
	expect(areBack(before, after(10, 4, 1))).toBe(false);
});

describe("accountProblems()", () => {
	/** One connection that ended in order, and one that was cut after 10 of its 100 bytes. */
	const whole: Account = {
		connections: exactly(1),
		bytesIn: exactly(50),
		bytesOut: exactly(70),
	};
	const cut: Account = {
		connections: exactly(1),
		bytesIn: { least: 10, most: 100 },
		bytesOut: { least: 10, most: 100 },
	};
	const both = sumOf(sumOf(NO_ACCOUNT, whole), cut);

	it("has none where the daemon counted what the peers saw", () => {
		expect(accountProblems(whole, { connections: 1, bytesIn: 50, bytesOut: 70 })).toEqual([]);
		expect(accountProblems(both, { connections: 2, bytesIn: 60, bytesOut: 170 })).toEqual([]);
		expect(accountProblems(both, { connections: 2, bytesIn: 150, bytesOut: 80 })).toEqual([]);
	});

	it.each([
		[{ connections: 2, bytesIn: 50, bytesOut: 70 }, "2 connections were counted, wanted 1"],
		[{ connections: 1, bytesIn: 49, bytesOut: 70 }, "49 bytes in were counted, wanted 50"],
		[{ connections: 1, bytesIn: 51, bytesOut: 70 }, "51 bytes in were counted, wanted 50"],
		[{ connections: 1, bytesIn: 50, bytesOut: 69 }, "69 bytes out were counted, wanted 70"],
		[{ connections: 1, bytesIn: 50, bytesOut: 71 }, "71 bytes out were counted, wanted 70"],
	])("finds each one too few or too many: %o", (counted, problem) => {
		expect(accountProblems(whole, counted)).toEqual([problem]);
	});

	it("finds what is out of bounds where connections were cut", () => {
		expect(accountProblems(both, { connections: 2, bytesIn: 59, bytesOut: 171 })).toEqual([
			"59 bytes in were counted, wanted 60 to 150",
			"171 bytes out were counted, wanted 80 to 170",
		]);
	});
});
