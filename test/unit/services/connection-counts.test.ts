import { describe, expect, test as it } from "vitest";
import {
	addCounts,
	countEnded,
	newConnectionCounts,
} from "../../../src/services/connection-counts.ts";
import { aRecord, aRetriedRecord } from "../observe/a-record.ts";

describe("addCounts()", () => {
	it("makes of two counts what one would be that had counted everything", () => {
		const records = [
			aRecord({ connectMs: 0.5 }),
			aRetriedRecord({ connectMs: 30 }),
			aRecord({ end: "unreachable", connectMs: undefined, bytesIn: 0 }),
			aRecord({ connectMs: 60_000 }),
		];
		const all = newConnectionCounts();
		for (const record of records) countEnded(all, record);
		const [one, other] = [newConnectionCounts(), newConnectionCounts()];
		all.started = 5;
		one.started = 2;
		other.started = 3;
		for (const record of records.slice(0, 1)) countEnded(one, record);
		for (const record of records.slice(1)) countEnded(other, record);
		addCounts(one, structuredClone(other));
		expect(one).toEqual(all);
		expect(one.ended).toBe(4);
	});
});
