import { expect, test as it } from "vitest";
import { FaultLog } from "../../../src/proxies/fault-log.ts";
import { aLog } from "./builders.ts";

function aFaultLog() {
	const { log, lines } = aLog();
	const faults = new FaultLog(log, "began", "ended");
	return { faults, said: () => lines.map(({ message }) => message), lines };
}

it("says a fault once, however often it comes", () => {
	const { faults, said } = aFaultLog();
	for (let index = 0; index < 1000; index += 1) faults.happened({});
	faults.sweep();
	faults.happened({});
	faults.sweep();
	expect(said()).toEqual(["began"]);
});

it("says the end, with the count, after a whole sweep without it", () => {
	const { faults, lines } = aFaultLog();
	faults.happened({ errorCode: "EMFILE" });
	faults.happened({ errorCode: "EMFILE" });
	faults.sweep();
	faults.sweep();
	faults.sweep();
	expect(lines).toEqual([
		{ level: "warn", message: "began", fields: { errorCode: "EMFILE" } },
		{ level: "info", message: "ended", fields: { count: 2 } },
	]);
});

it("begins anew after an end", () => {
	const { faults, said } = aFaultLog();
	for (let round = 0; round < 2; round += 1) {
		faults.happened({});
		faults.sweep();
		faults.sweep();
	}
	expect(said()).toEqual(["began", "ended", "began", "ended"]);
});

it("says nothing when nothing happened", () => {
	const { faults, said } = aFaultLog();
	faults.sweep();
	expect(said()).toEqual([]);
});
