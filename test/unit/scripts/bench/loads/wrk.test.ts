import { describe, expect, test as it } from "vitest";
import { parseWrk } from "../../../../../scripts/bench/loads/wrk.ts";

function output(more = ""): string {
	return `Running 2s test @ http://10.96.0.10:80/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   610.20us    1.10ms  20.11ms   99.00%
    Req/Sec    13.90k     1.20k   15.00k    50.00%
  Latency Distribution
     50%  596.00us
     75%    1.90ms
     90%    3.80ms
     99%    1.05s 
  27801 requests in 2.00s, 5.12MB read
${more}Requests/sec:  13900.21
Transfer/sec:      2.56MB
`;
}

describe("parseWrk", () => {
	it("reads rate, number and latencies, whatever their unit", () => {
		expect(parseWrk(output())).toEqual({
			requests: 27_801,
			perSecond: 13_900.21,
			p50Ms: 0.596,
			p99Ms: 1_050,
		});
	});

	it.each([
		"  Socket errors: connect 0, read 12, write 0, timeout 0\n",
		"  Non-2xx or 3xx responses: 3\n",
	])("takes no figures from a run with errors: %s", (line) => {
		expect(() => parseWrk(output(line))).toThrow(`wrk met errors: ${line.trim()}`);
	});

	it("takes no figures from a run without an answer", () => {
		const silent = output().replace("27801 requests", "0 requests");
		expect(() => parseWrk(silent)).toThrow("wrk got no answer");
	});

	it("says what it got where a figure is missing", () => {
		expect(() => parseWrk("unable to connect")).toThrow("Cannot read what wrk says: unable to");
	});
});
