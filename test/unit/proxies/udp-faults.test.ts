import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { UdpFaults } from "../../../src/proxies/udp-faults.ts";
import { aLog } from "./builders.ts";

beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});

afterEach(() => {
	vi.useRealTimers();
});

describe("UdpFaults", () => {
	function someFaults() {
		const { log, lines } = aLog();
		return {
			faults: new UdpFaults(log, { wallMs: () => 0, monotonicMs: () => 0 }, () => 7),
			lines,
		};
	}

	it("says of a flood of drops that it began, and with the count that it is over", () => {
		const { faults, lines } = someFaults();
		const drop = { kind: "refused", service: "shop/dns", errorCode: "ECONNREFUSED" } as const;
		for (let round = 0; round < 100; round += 1) faults.happened({ ...drop, count: 10 });
		for (let minute = 0; minute < 3; minute += 1) vi.advanceTimersToNextTimer();
		expect(lines).toMatchObject([
			{
				level: "warn",
				message: "datagrams are dropped: refused",
				fields: { service: "shop/dns", errorCode: "ECONNREFUSED" },
			},
			{
				level: "info",
				message: "datagrams are no longer dropped: refused",
				fields: { failures: 1_000 },
			},
		]);
		faults.close();
		expect(vi.getTimerCount()).toBe(0);
	});

	it("says that flows make room, with how many there are", () => {
		const { faults, lines } = someFaults();
		for (let round = 0; round < 100; round += 1) {
			faults.happened({ kind: "evicted", service: "shop/dns", count: 1 });
		}
		for (let minute = 0; minute < 3; minute += 1) vi.advanceTimersToNextTimer();
		expect(lines).toMatchObject([
			{
				message: "UDP flows are ended to make room",
				fields: { service: "shop/dns", udpFlows: 7 },
			},
			{ message: "UDP flows have room again" },
		]);
		faults.close();
	});

	it("keeps kinds apart", () => {
		const { faults, lines } = someFaults();
		for (const kind of ["refused", "queue-full", "refused", "evicted"] as const) {
			faults.happened({ kind, service: "shop/dns", count: 1 });
		}
		expect(lines).toHaveLength(3);
		faults.close();
	});
});
