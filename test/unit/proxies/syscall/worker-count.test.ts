import { describe, expect, test as it } from "vitest";
import { workerCountFor } from "../../../../src/proxies/syscall/worker-count.ts";

describe("workerCountFor()", () => {
	const free = { workers: 4, hasAffinity: false, extraSockets: 0, descriptorLimit: 1_000 };

	it("is all workers where nothing speaks against it", () => {
		expect(workerCountFor(free)).toBe(4);
		expect(workerCountFor({ ...free, workers: 1 })).toBe(1);
	});

	it("is one where a client has to stay with what is known of it", () => {
		expect(workerCountFor({ ...free, hasAffinity: true })).toBe(1);
	});

	it("is one once further sockets take a quarter of the descriptors", () => {
		expect(workerCountFor({ ...free, extraSockets: 247 })).toBe(4);
		expect(workerCountFor({ ...free, extraSockets: 248 })).toBe(1);
		expect(workerCountFor({ ...free, descriptorLimit: 11 })).toBe(1);
	});
});
