import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	CallQueue,
	MAX_QUEUED_CALLS,
	type QueuedOperation,
} from "../../../../src/proxies/syscall/call-queue.ts";
import { DatagramBatch } from "../../../../src/proxies/syscall/datagram-batch.ts";
import { IORING_OP } from "../../../../src/proxies/syscall/io-ring.ts";
import {
	connectDatagramSocket,
	openDatagramSockets,
} from "../../../../src/proxies/syscall/udp-sockets.ts";
import {
	addressOf,
	close,
	EAGAIN,
	EPOLLIN,
	EpollEvents,
	epollCreate,
	epollWait,
	eventfd,
} from "../../../../src/system/libc.ts";
import { codeOf } from "../../../../src/system/system-error.ts";
import {
	aBareConnection,
	addressAt,
	type Connection,
	heard,
	LOOPBACK,
	say,
	WAYS_OF_CALLING,
} from "./bare-sockets.ts";

describe.each(WAYS_OF_CALLING)("CallQueue, with calls made %s", (_how, createRing) => {
	let calls: CallQueue;
	let open: number[];
	let told: [operation: QueuedOperation, result: number][];
	const owner = {
		onCall: (operation: QueuedOperation, result: number) => told.push([operation, result]),
	};
	beforeEach(() => {
		calls = new CallQueue(createRing());
		open = [];
		told = [];
	});
	afterEach(() => {
		calls.release();
		for (const fd of open) close(fd);
	});

	function aConnection(): Connection {
		const connection = aBareConnection();
		open.push(connection.near, connection.far);
		return connection;
	}

	it("reads from many, and writes what each said to another", () => {
		const pairs = Array.from({ length: 70 }, () => ({ from: aConnection(), to: aConnection() }));
		for (const [index, { from, to }] of pairs.entries()) {
			say(from.near, `text ${index}`);
			const relay = {
				onCall(operation: QueuedOperation, result: number, slot: number) {
					if (operation === IORING_OP.recv) calls.sendRead(to.near, slot, result, 0, relay);
				},
			};
			calls.recv(from.far, relay);
		}
		calls.run();
		expect(pairs.map(({ to }) => heard(to.far))).toEqual(pairs.map((_, index) => `text ${index}`));
	});

	it.each([97, 100, 127, 128, 200])(
		"gives each read its own memory beside %i other calls",
		(others) => {
			const poll = epollCreate();
			open.push(poll);
			for (let count = 0; count < others; count += 1) {
				const fd = eventfd();
				open.push(fd);
				calls.epollAdd(poll, fd, EPOLLIN, 1, { onCall: () => {} });
			}
			const texts = Array.from({ length: 31 }, (_, index) => `text ${index}`);
			const read: string[] = [];
			for (const text of texts) {
				const { near, far } = aConnection();
				say(near, text);
				calls.recv(far, {
					onCall: (_operation, result, slot) => {
						// Looked at when all have been read, as a write of it is.
						calls.epollAdd(poll, -1, EPOLLIN, 1, {
							onCall: () => read.push(calls.bytesOf(slot).toString("utf8", 0, result)),
						});
					},
				});
			}
			calls.run();
			expect(read).toEqual(texts);
		},
	);

	it("makes room for what owners queue, however much it is", () => {
		const poll = epollCreate();
		open.push(poll);
		const { far } = aConnection();
		let count = 0;
		calls.recv(far, {
			onCall: () => {
				for (let each = 0; each < 3 * MAX_QUEUED_CALLS; each += 1) {
					calls.epollAdd(poll, -1, EPOLLIN, 1, {
						onCall: () => {
							count += 1;
						},
					});
				}
			},
		});
		calls.run();
		expect(count).toBe(3 * MAX_QUEUED_CALLS);
	});

	it("tells each what its call gave, an end and an error too", () => {
		const [ended, silent, saying] = [aConnection(), aConnection(), aConnection()];
		close(ended.near);
		open = open.filter((fd) => fd !== ended.near);
		say(saying.near, "hello");
		calls.recv(ended.far, owner);
		calls.recv(silent.far, owner);
		calls.recv(-1, owner);
		calls.recv(saying.far, owner);
		calls.run();
		expect(told.map(([, result]) => (result < 0 ? codeOf(result) : result))).toEqual([
			0,
			codeOf(-EAGAIN),
			"EBADF",
			5,
		]);
	});

	it("has what was read until it has been run to the end, and more reads than it has room for", () => {
		const connections = Array.from({ length: 100 }, aConnection);
		const texts: string[] = [];
		for (const [index, { near, far }] of connections.entries()) {
			say(near, `${index}`);
			calls.recv(far, {
				onCall: (_operation, result, slot) =>
					texts.push(calls.bytesOf(slot).toString("utf8", 0, result)),
			});
		}
		calls.run();
		expect(texts).toEqual(connections.map((_, index) => `${index}`));
	});

	it("sends datagrams and receives one to each header", () => {
		const bound = openDatagramSockets({ family: "ipv4", address: LOOPBACK, port: 0 }, 1);
		const [receiver = -1] = bound.fds;
		const to = addressAt(bound.port);
		const sender = connectDatagramSocket(to);
		open.push(receiver, sender);
		const texts = ["one", "two"].map((text) => {
			const memory = Buffer.allocUnsafeSlow(text.length);
			memory.write(text);
			return memory;
		});
		for (const text of texts) calls.sendDatagram(sender, text, addressOf(text), owner);
		calls.run();
		const batch = new DatagramBatch(2, 16);
		for (const slot of [0, 1]) {
			batch.prepare(slot);
			calls.recvmsg(receiver, batch.headerOf(slot), batch.headerAddressOf(slot), slot, {
				onCall: (_operation, result) => batch.noteReceived(slot, result),
			});
		}
		calls.run();
		expect([0, 1].map((slot) => batch.datagram(slot).toString())).toEqual(["one", "two"]);
	});

	it("adds descriptors to epoll, and closes them, however many there are", () => {
		const poll = epollCreate();
		open.push(poll);
		const connections = Array.from({ length: MAX_QUEUED_CALLS }, aConnection);
		for (const [index, { near, far }] of connections.entries()) {
			say(near, "x");
			calls.epollAdd(poll, far, EPOLLIN, index + 1, owner);
		}
		calls.epollAdd(poll, -1, EPOLLIN, 1, owner);
		calls.run();
		const events = new EpollEvents(2 * MAX_QUEUED_CALLS);
		expect(epollWait(poll, events, 0)).toBe(MAX_QUEUED_CALLS);
		const tags = connections.map((_, index) => events.tag(index));
		expect(tags.toSorted((a, b) => a - b)).toEqual(connections.map((_, index) => index + 1));
		expect(told.map(([, result]) => result)).toContain(told.at(-1)?.[1]);
		expect(codeOf(told.at(-1)?.[1] ?? 0)).toBe("EBADF");
		for (const { near, far } of connections) {
			calls.close(near);
			calls.close(far);
		}
		calls.run();
		open = [poll];
		for (const { near } of connections) expect(codeOf(close(near))).toBe("EBADF");
	});

	it("goes on with what is queued after an owner has thrown", () => {
		const { near, far } = aConnection();
		say(near, "hello");
		calls.recv(far, {
			onCall: () => {
				throw new Error("a bug");
			},
		});
		expect(() => calls.run()).toThrow("a bug");
		say(near, "again");
		calls.recv(far, owner);
		calls.run();
		expect(told).toEqual([[IORING_OP.recv, 5]]);
	});
});
