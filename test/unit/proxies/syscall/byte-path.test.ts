import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { DescriptorBudget } from "../../../../src/proxies/descriptor-budget.ts";
import { BytePath, type Pumped } from "../../../../src/proxies/syscall/byte-path.ts";
import { CallQueue } from "../../../../src/proxies/syscall/call-queue.ts";
import { type Pipe, PipePool } from "../../../../src/proxies/syscall/pipe-pool.ts";
import {
	close,
	EAGAIN,
	recv,
	SHUT_WR,
	send,
	setResetOnClose,
	shutdown,
	splice,
} from "../../../../src/system/libc.ts";
import { codeOf } from "../../../../src/system/system-error.ts";
import { someBytes } from "../../../conformance/tcp-lab.ts";
import { aBareConnection, type Connection } from "./bare-sockets.ts";

const BLOCK = someBytes(256 * 1024);

describe("BytePath with bytes in its pipe", () => {
	const open = new Set<number>();
	let pipes: PipePool;
	let calls: CallQueue;
	let sender: Connection;
	let receiver: Connection;
	let path: BytePath;
	beforeEach(() => {
		pipes = new PipePool(
			new DescriptorBudget(1000),
			() => {},
			() => {},
		);
		calls = new CallQueue(undefined);
		sender = aConnection();
		receiver = aConnection();
		path = new BytePath(sender.far, receiver.near, false, { calls, pipes });
	});
	afterEach(() => {
		path.release();
		pipes.clear();
		for (const fd of open) close(fd);
		open.clear();
	});

	function aConnection(): Connection {
		const connection = aBareConnection();
		open.add(connection.near).add(connection.far);
		return connection;
	}

	function reset(fd: number): void {
		setResetOnClose(fd);
		close(fd);
		open.delete(fd);
	}

	function pump(): Pumped {
		path.begin();
		calls.run();
		return path.pump(false);
	}

	/** Sends until nobody takes any more: then bytes wait everywhere, in the pipe too. */
	function fill(): Pumped {
		for (;;) {
			const sent = send(sender.near, BLOCK, BLOCK.length);
			path.isReadable = true;
			const pumped = pump();
			if (sent === -EAGAIN && path.isHeldBack) return pumped;
			expect(["waits", "more"]).toContain(pumped);
		}
	}

	/** Takes what has come to the receiver. @returns how many bytes. */
	function take(): number {
		const into = Buffer.alloc(BLOCK.length);
		let bytes = 0;
		let count = recv(receiver.far, into, into.length);
		for (; count > 0; count = recv(receiver.far, into, into.length)) bytes += count;
		return bytes;
	}

	/** Takes and pumps until there is no more to it. */
	function drain(): { readonly pumped: Pumped; readonly bytes: number } {
		let bytes = 0;
		for (;;) {
			bytes += take();
			path.isWritable = true;
			path.isReadable = true;
			const pumped = pump();
			if (pumped !== "waits" && pumped !== "more") return { pumped, bytes: bytes + take() };
		}
	}

	/** What the next one who takes a pipe finds in it. */
	function takeAndLook(): { readonly pipe: Pipe; readonly found: number } {
		const pipe = pipes.take() ?? expect.unreachable("no pipe");
		const to = aConnection();
		return { pipe, found: splice(pipe.readFd, to.near, pipe.capacity) };
	}

	it("goes on where it was when the other side takes some", () => {
		expect(fill()).toBe("waits");
		const before = path.bytes;
		expect(take()).toBeGreaterThan(0);
		path.isWritable = true;
		path.isReadable = true;
		pump();
		expect(path.bytes).toBeGreaterThan(before);
	});

	it.each([
		["ECONNRESET", () => {}],
		// It had said its end before: then the kernel calls it so.
		["EPIPE", () => shutdown(receiver.far, SHUT_WR)],
	])("fails with %s when the receiver resets", (code, before) => {
		fill();
		before();
		reset(receiver.far);
		path.isWritable = true;
		expect(pump()).toBe("write-failed");
		expect(codeOf(path.failure)).toBe(code);
	});

	it("fails with ECONNRESET when the sender resets, once what it had sent is passed on", () => {
		fill();
		reset(sender.near);
		const sent = drain();
		expect(sent.pumped).toBe("read-failed");
		expect(codeOf(path.failure)).toBe("ECONNRESET");
		expect(sent.bytes).toBe(path.bytes);
	});

	it("never leaves them to the next one who takes a pipe", () => {
		fill();
		reset(receiver.far);
		path.isWritable = true;
		pump();
		path.release();
		expect(takeAndLook().found).toBe(-EAGAIN);
	});

	it("gives its pipe to the next one when nothing is left in it", () => {
		fill();
		shutdown(sender.near, SHUT_WR);
		expect(drain().pumped).toBe("over");
		expect(takeAndLook().found).toBe(-EAGAIN);
	});
});
