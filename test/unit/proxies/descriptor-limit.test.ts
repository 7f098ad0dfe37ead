import { describe, expect, test as it } from "vitest";
import { parseDescriptorLimit } from "../../../src/proxies/descriptor-limit.ts";

describe("parseDescriptorLimit()", () => {
	const text = [
		"Limit                     Soft Limit           Hard Limit           Units     ",
		"Max core file size        0                    unlimited            bytes     ",
		"Max open files            20000                524288               files     ",
	].join("\n");

	it("reads the soft limit", () => {
		expect(parseDescriptorLimit(text)).toBe(20_000);
	});

	it("takes unlimited for what the kernel allows at most", () => {
		expect(parseDescriptorLimit(text.replace("20000 ", "unlimited"))).toBe(1_048_576);
	});

	it("supposes the usual limit when there is no such line", () => {
		expect(parseDescriptorLimit("")).toBe(1024);
	});
});
