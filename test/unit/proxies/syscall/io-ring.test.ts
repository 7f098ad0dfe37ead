import { readdirSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { IORING_OP, IoRing } from "../../../../src/proxies/syscall/io-ring.ts";
import { pipe } from "../../../../src/system/libc.ts";
import { codeOf } from "../../../../src/system/system-error.ts";

const MORE_THAN_ANY_KERNEL_HAS = 2 ** 20;

function openCount(): number {
	return readdirSync("/proc/self/fd").length;
}

describe("IoRing", () => {
	it("goes round many times, with results in the order in which calls were added", () => {
		const ring = new IoRing(8);
		const before = openCount();
		for (let round = 0; round < 10; round += 1) {
			const ends = new Int32Array(2);
			expect(pipe(ends)).toBe(0);
			for (const fd of [ends[0] ?? -1, -1, ends[1] ?? -1]) {
				ring.add(IORING_OP.close, fd, 0, 0, 0, 0);
			}
			expect(ring.run()).toBe(3);
			expect(
				Array.from(ring.results.slice(0, 3), (result) => (result === 0 ? "" : codeOf(result))),
			).toEqual(["", "EBADF", ""]);
			expect(openCount()).toBe(before);
		}
		ring.close();
	});

	it("takes no more than it has room for", () => {
		const ring = new IoRing(2);
		for (let count = 0; count < 2; count += 1) ring.add(IORING_OP.close, -1, 0, 0, 0, 0);
		expect(() => ring.add(IORING_OP.close, -1, 0, 0, 0, 0)).toThrow("Cannot queue more calls");
		ring.run();
		ring.close();
	});

	it("says what the kernel says where there is none to be had, and leaves nothing open", () => {
		const before = openCount();
		expect(() => new IoRing(MORE_THAN_ANY_KERNEL_HAS)).toThrow("io_uring_setup EINVAL");
		expect(openCount()).toBe(before);
	});
});
