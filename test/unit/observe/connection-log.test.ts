import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { ConnectionLog } from "../../../src/observe/connection-log.ts";
import type { ConnectionEnd } from "../../../src/services/connection-record.ts";
import { aRecord, aRetriedRecord } from "./a-record.ts";
import { aCapturedLog } from "./captured-log.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

describe("ConnectionLog", () => {
	it('writes nothing in mode "off"', () => {
		const { log, lines } = aCapturedLog();
		new ConnectionLog({ log, mode: "off" }).record(aRecord({ end: "unreachable" }));
		expect(lines).toEqual([]);
	});

	it('writes every connection in mode "all", with the fields of the record', () => {
		const { log, lines } = aCapturedLog();
		new ConnectionLog({ log, mode: "all" }).record(aRecord());
		expect(lines).toEqual([
			{
				level: "info",
				message: "connection",
				fields: {
					id: "1f3",
					service: "shop/cart:http",
					protocol: "tcp",
					client: "10.1.0.2:41234",
					endpoint: "10.2.1.2:8080",
					pod: "web-1",
					bytesIn: 312,
					bytesOut: 4_100,
					connectMs: 0.5,
					durationMs: 12.3,
					end: "closed",
				},
			},
		]);
	});

	it('leaves out in mode "errors" what ended in order at the first attempt', () => {
		const { log, lines } = aCapturedLog();
		const connections = new ConnectionLog({ log, mode: "errors" });
		connections.record(aRecord({ end: "closed" }));
		connections.record(aRecord({ protocol: "udp", end: "idle" }));
		expect(lines).toEqual([]);
	});

	it('writes in mode "errors" what needed a second attempt, with both', () => {
		const { log, lines } = aCapturedLog();
		new ConnectionLog({ log, mode: "errors" }).record(aRetriedRecord({ affinity: "moved" }));
		expect(lines[0]?.fields).toMatchObject({
			affinity: "moved",
			attempts: [
				{ endpoint: "10.2.2.2:8080", outcome: "refused", ms: 1, code: "ECONNREFUSED" },
				{ endpoint: "10.2.1.2:8080", outcome: "connected", ms: 0.4 },
			],
		});
	});

	it.each<ConnectionEnd>([
		"client-reset",
		"endpoint-reset",
		"client-vanished",
		"endpoint-vanished",
		"client-gone",
		"no-endpoint",
		"unreachable",
		"half-close-timeout",
		"unanswered",
		"evicted",
		"endpoint-gone",
		"stopped",
		"overload",
	])('writes in mode "errors" the end %s', (end) => {
		const { log, lines } = aCapturedLog();
		new ConnectionLog({ log, mode: "errors" }).record(aRecord({ end }));
		expect(lines).toHaveLength(1);
	});

	it("steps through the modes and stays at either end", () => {
		const { log, lines } = aCapturedLog();
		const connections = new ConnectionLog({ log, mode: "off" });
		const modes = [1, 2, 3].map(() => {
			connections.more("SIGUSR1");
			return connections.mode;
		});
		expect(modes).toEqual(["errors", "all", "all"]);
		const back = [1, 2, 3].map(() => {
			connections.fewer("SIGUSR2");
			return connections.mode;
		});
		expect(back).toEqual(["errors", "off", "off"]);
		expect(lines.map(({ fields }) => fields)).toEqual([
			{ mode: "errors", reason: "SIGUSR1" },
			{ mode: "all", reason: "SIGUSR1" },
			{ mode: "errors", reason: "SIGUSR2" },
			{ mode: "off", reason: "SIGUSR2" },
		]);
	});

	it("writes at most so many lines a second, and says once a second what it left out", () => {
		const { log, lines } = aCapturedLog();
		const connections = new ConnectionLog({ log, mode: "all", maxLinesPerSecond: 10 });
		for (let index = 0; index < 1_000; index += 1) connections.record(aRecord());
		expect(lines).toHaveLength(10);
		expect(connections.leftOut()).toBe(990);
		vi.advanceTimersByTime(1_000);
		expect(lines).toHaveLength(11);
		expect(lines[10]).toMatchObject({ level: "warn", fields: { connections: 990 } });
		for (let index = 0; index < 15; index += 1) connections.record(aRecord());
		vi.advanceTimersByTime(1_000);
		expect(lines).toHaveLength(22);
		expect(lines[21]?.fields).toEqual({ connections: 5 });
	});

	it("keeps no timer going once it is quiet", () => {
		const { log } = aCapturedLog();
		new ConnectionLog({ log, mode: "all" }).record(aRecord());
		vi.advanceTimersByTime(1_000);
		expect(vi.getTimerCount()).toBe(0);
	});
});
