import { describe, expect, test as it } from "vitest";
import type { FromWorker } from "../../../../src/proxies/syscall/messages.ts";
import { Teller } from "../../../../src/proxies/syscall/teller.ts";
import { aRecord, aStart } from "../../observe/a-record.ts";

function aTeller(ends: "none" | "troubled" | "all") {
	const said: Extract<FromWorker, { kind: "happened" }>[] = [];
	const teller = new Teller({ starts: ends === "all", ends }, (message) => {
		if (message.kind === "happened") said.push(message);
	});
	return { teller, said };
}

describe("Teller", () => {
	it("tells one by one what is wanted, some milliseconds after the first at the latest", () => {
		const { teller, said } = aTeller("all");
		expect(teller.dueInMs(0)).toBe(Number.POSITIVE_INFINITY);
		teller.happened({ start: aStart({ id: "1" }) }, 100);
		teller.ended(aRecord({ id: "1" }), 105);
		expect(teller.dueInMs(105)).toBe(5);
		teller.tellDue(109);
		expect(said).toEqual([]);
		teller.tellDue(110);
		expect(said).toMatchObject([
			{ counts: [], events: [{ start: { id: "1" } }, { record: { id: "1" } }] },
		]);
		expect(teller.recent()).toEqual([]);
	});

	it("makes one event of a flood of dropped datagrams, as the last of them was", () => {
		const { teller, said } = aTeller("none");
		const fault = { kind: "refused", service: "shop/dns", count: 1 } as const;
		for (let count = 0; count < 1_000; count += 1) teller.udpFault(fault, 0);
		teller.happened("client-forgotten", 1);
		teller.udpFault({ ...fault, service: "shop/last", errorCode: "EPERM" }, 2);
		teller.udpFault({ ...fault, kind: "evicted" }, 3);
		teller.tellDue(10);
		teller.udpFault(fault, 11);
		teller.tellDue(21);
		expect(said.map(({ events }) => events)).toEqual([
			[
				{ udpFault: { kind: "refused", service: "shop/last", errorCode: "EPERM", count: 1_001 } },
				"client-forgotten",
				{ udpFault: { ...fault, kind: "evicted" } },
			],
			[{ udpFault: fault }],
		]);
	});

	it("counts what is not wanted, and tells that within a second", () => {
		const { teller, said } = aTeller("none");
		for (const id of ["1", "2"]) {
			teller.countStart("tcp", "shop/cart:http", 0);
			teller.ended(aRecord({ id, bytesIn: 10 }), 1);
		}
		teller.countStart("udp", "shop/dns", 2);
		teller.tellDue(999);
		expect(said).toEqual([]);
		teller.tellDue(1_000);
		expect(said).toMatchObject([
			{
				events: [],
				counts: [
					{ protocol: "tcp", service: "shop/cart:http", counts: { started: 2, bytesIn: 20 } },
					{ protocol: "udp", service: "shop/dns", counts: { started: 1, ended: 0 } },
				],
			},
		]);
		expect(teller.dueInMs(1_000)).toBe(Number.POSITIVE_INFINITY);
		expect(teller.recent().map(({ id }) => id)).toEqual(["1", "2"]);
	});

	it("tells counts no later than what came after them: nobody ends who has not begun", () => {
		const { teller, said } = aTeller("troubled");
		teller.countStart("tcp", "shop/cart:http", 0);
		teller.ended(aRecord({ end: "client-reset" }), 1);
		teller.tellDue(11);
		expect(said).toMatchObject([
			{ counts: [{ counts: { started: 1 } }], events: [{ record: { end: "client-reset" } }] },
		]);
	});

	it("keeps the last 1,000 records that nobody was told of", () => {
		const { teller } = aTeller("none");
		for (let id = 1; id <= 1_001; id += 1) teller.ended(aRecord({ id: `${id}` }), 0);
		const ids = teller.recent().map(({ id }) => id);
		expect(ids).toHaveLength(1_000);
		expect(ids).toContain("1001");
		expect(ids).not.toContain("1");
	});
});
