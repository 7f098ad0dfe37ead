import { describe, expect, test as it } from "vitest";
import { admitUdpResult } from "../../../../../scripts/bench/loads/udp.ts";

const result = { count: 100_000, seconds: 4, p50Ms: 0.5, p99Ms: 2, lost: 0 };

describe("admitUdpResult", () => {
	it("bears a few losses in many round trips", () => {
		expect(admitUdpResult({ ...result, lost: 100 }).count).toBe(100_000);
	});

	it.each([
		{ count: 100_000, lost: 101 },
		{ count: 0, lost: 0 },
	])("takes no figures from $count answers with $lost losses", (figures) => {
		expect(() => admitUdpResult({ ...result, ...figures })).toThrow(
			`${figures.lost} datagrams had no answer, ${figures.count} had one`,
		);
	});
});
