import { describe, expect, test as it } from "vitest";
import { parseIperf3 } from "../../../../../scripts/bench/loads/iperf3.ts";

describe("parseIperf3", () => {
	it("reads what the server received, not what the client sent", () => {
		const end = {
			sum_sent: { bits_per_second: 9e9, bytes: 2e9 },
			sum_received: { bits_per_second: 8e9, bytes: 1e9 },
		};
		expect(parseIperf3(JSON.stringify({ end }))).toEqual({ bitsPerSecond: 8e9, bytes: 1e9 });
	});

	it("fails with iperf3's own words", () => {
		const output = JSON.stringify({ end: {}, error: "the server is busy running a test" });
		expect(() => parseIperf3(output)).toThrow("iperf3 failed: the server is busy running a test");
	});

	it.each(["{}", '{"end":{"sum_received":{"bits_per_second":0,"bytes":0}}}'])(
		"takes no figure where nothing was received: %s",
		(output) => {
			expect(() => parseIperf3(output)).toThrow("does not say what the server received");
		},
	);

	it("shows what it cannot read", () => {
		expect(() => parseIperf3("Segmentation fault")).toThrow("iperf3 says: Segmentation fault");
	});
});
