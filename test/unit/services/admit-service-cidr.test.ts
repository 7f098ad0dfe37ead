import { describe, expect, test as it } from "vitest";
import { admitServiceCidr } from "../../../src/services/admit-service-cidr.ts";
import { admitted, problemsOf } from "../../kit/snapshots.ts";

const withCidrs = (cidrs: unknown) => ({ metadata: { name: "kubernetes" }, spec: { cidrs } });

describe("admitServiceCidr()", () => {
	it("takes the ranges, without bits behind the prefix", () => {
		expect(admitted(admitServiceCidr(withCidrs(["10.96.1.1/12", "fd10:96::/112"])))).toEqual({
			name: "kubernetes",
			ranges: ["10.96.0.0/12", "fd10:96::/112"],
		});
	});

	it.each([
		["no range", ["10.96.0.0"], "spec.cidrs[0]: wanted an IP range in CIDR notation"],
		["half of the world", ["0.0.0.0/1"], "spec.cidrs[0]: wanted a prefix of at least /8"],
		["half of a continent", ["fd00::/47"], "spec.cidrs[0]: wanted a prefix of at least /48"],
		["a number", [12], "spec.cidrs[0]: wanted an IP range in CIDR notation, got 12"],
		["three", ["10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16"], "spec.cidrs: wanted at most 2 items"],
		["no list", "10.96.0.0/12", "spec.cidrs: wanted a list"],
	])("refuses %s", (_, cidrs, problem) => {
		expect(problemsOf(admitServiceCidr(withCidrs(cidrs)))).toEqual([
			expect.stringContaining(problem),
		]);
	});

	it.each([undefined, null, [], "x", { metadata: { name: "A b" } }])("refuses %j", (raw) => {
		expect(problemsOf(admitServiceCidr(raw)).length).toBeGreaterThan(0);
	});
});
