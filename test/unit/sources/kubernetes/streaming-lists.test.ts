import { describe, expect, test as it } from "vitest";
import { silentLog } from "../../../../src/shared/log.ts";
import { ApiError, type ApiErrorCode } from "../../../../src/sources/kubernetes/api-errors.ts";
import { StreamingLists } from "../../../../src/sources/kubernetes/streaming-lists.ts";

function aServer() {
	const lines: string[] = [];
	let nowMs = 0;
	const streaming = new StreamingLists({
		clock: { wallMs: () => 0, monotonicMs: () => nowMs },
		log: {
			...silentLog,
			debug: (_fields: object, message: string) => void lines.push(`debug ${message}`),
			warn: (_fields: object, message: string) => void lines.push(`warn ${message}`),
		},
		retryMs: 1_000,
	});
	const later = (ms: number) => {
		nowMs += ms;
	};
	const fail = (code: ApiErrorCode, status?: number) =>
		streaming.learn(new ApiError(code, "x", { status }));
	return { fail, later, lines, streaming };
}

describe("StreamingLists", () => {
	it.each<[ApiErrorCode, number | undefined]>([
		["status", 400],
		["status", 422],
		["bad-answer", undefined],
		["timeout", undefined],
		["idle", undefined],
	])("spares a server for a while after %s %s", (code, status) => {
		const { fail, later, streaming } = aServer();
		expect(streaming.mayTry()).toBe(true);
		expect(fail(code, status)).toBe(true);
		expect(streaming.mayTry()).toBe(false);
		later(999);
		expect(streaming.mayTry()).toBe(false);
		later(1);
		expect(streaming.mayTry()).toBe(true);
	});

	it.each<[ApiErrorCode, number | undefined]>([
		["status", 401],
		["status", 403],
		["status", 429],
		["status", 500],
		["expired", 410],
		["lost", undefined],
		["wrong-kind", undefined],
	])("learns nothing from %s %s", (code, status) => {
		const { fail, lines, streaming } = aServer();
		expect(fail(code, status)).toBe(false);
		expect(streaming.mayTry()).toBe(true);
		expect(lines).toEqual([]);
	});

	it("says what a server ignores once, until it has worked again", () => {
		const { fail, lines, streaming } = aServer();
		const warning = "warn streaming lists do not work here, reading lists in pages";
		fail("bad-answer");
		fail("idle");
		expect(lines).toEqual([warning]);
		streaming.worked();
		fail("bad-answer");
		expect(lines).toEqual([warning, warning]);
	});

	it("takes a refusal for nothing worth saying", () => {
		const { fail, lines } = aServer();
		fail("status", 422);
		expect(lines).toEqual(["debug server has no streaming lists, reading lists in pages"]);
	});
});
