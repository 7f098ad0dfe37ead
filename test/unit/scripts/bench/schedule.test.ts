import { describe, expect, test as it } from "vitest";
import { CONTENDERS } from "../../../../scripts/bench/contenders.ts";
import { MEASUREMENTS } from "../../../../scripts/bench/measurements.ts";
import { scheduleOf } from "../../../../scripts/bench/schedule.ts";

function turns(rounds: number, measurements: readonly string[], contenders: readonly string[]) {
	return scheduleOf(
		rounds,
		MEASUREMENTS.filter(({ name }) => measurements.includes(name)),
		CONTENDERS.filter(({ name }) => contenders.includes(name)),
	).map(({ round, measurement, contender }) => `${round} ${measurement.name} ${contender.name}`);
}

describe("scheduleOf", () => {
	it("measures all contenders one after the other, and another one first in each round", () => {
		expect(turns(2, ["bulk", "new"], ["direct", "nginx", "syscall"])).toEqual([
			"1 bulk direct",
			"1 bulk nginx",
			"1 bulk syscall",
			"1 new direct",
			"1 new nginx",
			"1 new syscall",
			"2 bulk nginx",
			"2 bulk syscall",
			"2 bulk direct",
			"2 new nginx",
			"2 new syscall",
			"2 new direct",
		]);
	});

	it("asks nobody for what it does not carry", () => {
		expect(turns(1, ["udp"], ["direct", "haproxy", "nginx", "socat", "stream"])).toEqual([
			"1 udp direct",
			"1 udp nginx",
			"1 udp stream",
		]);
	});

	it("asks for memory only where the processes are known", () => {
		expect(turns(1, ["idle"], ["direct", "haproxy", "socat", "syscall"])).toEqual([
			"1 idle haproxy",
			"1 idle syscall",
		]);
	});

	it("has socat for reference, in three measurements", () => {
		const all = MEASUREMENTS.map(({ name }) => name);
		expect(turns(1, all, ["socat"])).toEqual(["1 bulk socat", "1 keepalive socat", "1 new socat"]);
	});
});
