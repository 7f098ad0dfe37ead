import { describe, expect, test as it } from "vitest";
import { toConnectionFields } from "../../../src/observe/connection-fields.ts";
import { connectionSentence } from "../../../src/observe/connection-sentence.ts";
import type { ConnectionRecord } from "../../../src/services/connection-record.ts";
import { aRecord, aRetriedRecord } from "./a-record.ts";

function sentenceOf(record: ConnectionRecord): string {
	return connectionSentence(toConnectionFields(record), (_, text) => text);
}

describe("connectionSentence()", () => {
	it("tells who reached which endpoint of which Service", () => {
		expect(sentenceOf(aRecord())).toBe(
			"10.1.0.2:41234 → shop/cart:http → 10.2.1.2:8080 (web-1)  closed  312 B in  4.1 kB out  12 ms",
		);
	});

	it("tells failed attempts and session affinity", () => {
		expect(sentenceOf(aRetriedRecord({ affinity: "moved" }))).toBe(
			"10.1.0.2:41234 → shop/cart:http → 10.2.1.2:8080 (web-1)  closed  312 B in  4.1 kB out  12 ms  affinity moved  after 10.2.2.2:8080 refused (1 ms)",
		);
	});

	it("tells that nobody answered, with the system's reason, and how many attempts are not shown", () => {
		const record = aRecord({
			endpoint: undefined,
			podName: undefined,
			attempts: [
				{ endpoint: "10.2.2.2:80", outcome: "timeout", durationMs: 250, errorCode: undefined },
				{
					endpoint: "10.2.3.2:80",
					outcome: "unreachable",
					durationMs: 3,
					errorCode: "EHOSTUNREACH",
				},
			],
			attemptCount: 17,
			bytesOut: 0,
			durationMs: 3_751,
			end: "unreachable",
		});
		expect(sentenceOf(record)).toBe(
			"10.1.0.2:41234 → shop/cart:http → nobody  no endpoint answered  312 B in  0 B out  3.8 s  after 10.2.2.2:80 timeout (250 ms), 10.2.3.2:80 unreachable EHOSTUNREACH (3 ms), 15 more",
		);
	});

	it("tells UDP from TCP, and counts datagrams", () => {
		const record = aRecord({
			protocol: "udp",
			service: "kube-system/dns:dns",
			client: "[fd10::2]:5353",
			endpoint: "[fd10::1:2]:53",
			podName: undefined,
			datagramsIn: 1,
			datagramsOut: 2,
			durationMs: 61_000,
			end: "idle",
		});
		expect(sentenceOf(record)).toBe(
			"[fd10::2]:5353 → kube-system/dns:dns (udp) → [fd10::1:2]:53  idle  312 B in (1 datagram)  4.1 kB out (2 datagrams)  1 min 1 s",
		);
	});
});
