import { describe, expect, test as it } from "vitest";
import type { Log } from "../../../../src/shared/log.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { ApiError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { Problems } from "../../../../src/sources/kubernetes/problems.ts";

function recorded() {
	const lines: string[] = [];
	const at = (level: string) => (fields: object, message: string) => {
		lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
	};
	const log: Log = { ...silentLog, error: at("error"), warn: at("warn"), info: at("info") };
	const problems = new Problems(log);
	return { lines, problems, services: problems.slot("services"), slices: problems.slot("slices") };
}

const refused = new ApiError("unreachable", "Cannot reach it");
const denied = new ApiError("status", "Denied", { status: 403 });

describe("Problems", () => {
	it("says the same trouble of several reflectors once, and the end when all are well", () => {
		const { lines, problems, services, slices } = recorded();
		services.report(refused);
		slices.report(refused);
		services.report(refused);
		expect(problems.describe()).toBe("Cannot reach it");
		services.clear();
		expect(problems.describe()).toBe("Cannot reach it");
		slices.clear();
		slices.clear();
		expect(problems.describe()).toBeUndefined();
		expect(lines).toEqual([
			'warn cluster source failing {"reason":"Cannot reach it"}',
			"info cluster source recovered {}",
		]);
	});

	it("says a change, but no going to and fro", () => {
		const { lines, problems, services } = recorded();
		for (let round = 0; round < 5; round += 1) {
			services.report(refused);
			services.report(denied);
		}
		expect(lines.map((line) => line.split(" ")[0])).toEqual(["warn", "error"]);
		expect(problems.describe()).toBe("Denied");
	});

	it("says it again when it begins again", () => {
		const { lines, services } = recorded();
		services.report(refused);
		services.clear();
		services.report(refused);
		expect(lines).toHaveLength(3);
	});

	it("tells of a bug of ours as of anything else", () => {
		const { lines, services } = recorded();
		services.report(new TypeError("x is not a function"));
		expect(lines).toEqual(['error cluster source failing {"reason":"x is not a function"}']);
	});
});
