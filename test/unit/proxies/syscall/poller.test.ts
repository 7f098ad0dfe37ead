import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { CallQueue } from "../../../../src/proxies/syscall/call-queue.ts";
import { Poller } from "../../../../src/proxies/syscall/poller.ts";
import { close, EPOLLET, EPOLLIN, pipe } from "../../../../src/system/libc.ts";

const AT_ONCE_MS = 0;
const EEXIST = 17;

describe("a descriptor's number that is used again", () => {
	let poller: Poller;
	let told: string[];
	const closedByPoller = new Set<number>();
	const open = new Set<number>();
	const children: ChildProcess[] = [];
	beforeEach(() => {
		told = [];
		poller = new Poller(new CallQueue(undefined), (fd) => closedByPoller.add(fd));
	});
	afterEach(async () => {
		poller.close();
		for (const fd of open) if (!closedByPoller.has(fd)) close(fd);
		open.clear();
		closedByPoller.clear();
		for (const child of children) {
			child.stdin?.end();
			// oxlint-disable-next-line no-await-in-loop -- there is one
			await once(child, "exit");
		}
		children.length = 0;
	});

	/** A pipe whose reading end is polled. */
	function polled(name: string, onEvents = () => {}) {
		const ends = new Int32Array(2);
		expect(pipe(ends)).toBe(0);
		const [readFd = -1, writeFd = -1] = ends;
		for (const fd of ends) {
			open.add(fd);
			closedByPoller.delete(fd);
		}
		const handler = {
			onEvents() {
				told.push(name);
				onEvents();
			},
		};
		expect(poller.add(readFd, EPOLLIN | EPOLLET, handler)).toBe(0);
		return { readFd, write: () => writeSync(writeFd, "x") };
	}

	it("is not free while events of the same wait are told, and its own are not told any more", () => {
		let successor = -1;
		const [first, second] = ["first", "second"].map((name, index) =>
			polled(name, () => {
				const other = [second, first][index]?.readFd ?? -1;
				poller.closeLater(other);
				successor = polled("successor").readFd;
				expect(successor).not.toBe(other);
			}),
		);
		first?.write();
		second?.write();
		expect(poller.wait(AT_ONCE_MS)).toBe(2);
		poller.closeDue();
		// One of the two came first, and the other one was closed by it.
		expect(told).toHaveLength(1);
		expect(closedByPoller.size).toBe(1);
	});

	it("gets no event of the one before, which a child process may still have for a moment", async () => {
		const before = polled("before");
		const child = spawn("cat", [], { stdio: ["pipe", "ignore", "ignore", before.readFd] });
		children.push(child);
		await once(child, "spawn");
		poller.closeLater(before.readFd);
		poller.closeDue();
		const after = polled("after");
		expect(after.readFd).toBe(before.readFd);
		before.write();
		poller.wait(AT_ONCE_MS);
		expect(told).toEqual([]);
		after.write();
		poller.wait(AT_ONCE_MS);
		expect(told).toEqual(["after"]);
	});

	it("is told to the one before where it cannot be added again", () => {
		const first = polled("first");
		const second = { onEvents: () => told.push("second") };
		expect(poller.add(first.readFd, EPOLLIN, second)).toBe(-EEXIST);
		first.write();
		poller.wait(AT_ONCE_MS);
		expect(told).toEqual(["first"]);
		poller.handOver(first.readFd, second);
		first.write();
		poller.wait(AT_ONCE_MS);
		expect(told).toEqual(["first", "second"]);
	});
});
