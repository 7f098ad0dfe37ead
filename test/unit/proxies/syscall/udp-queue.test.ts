import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { DescriptorBudget } from "../../../../src/proxies/descriptor-budget.ts";
import { CallQueue, MAX_QUEUED_CALLS } from "../../../../src/proxies/syscall/call-queue.ts";
import { DatagramExchange } from "../../../../src/proxies/syscall/datagram-exchange.ts";
import { IoRing } from "../../../../src/proxies/syscall/io-ring.ts";
import {
	close,
	EPOLLIN,
	epollCreate,
	eventfd,
	recv,
	send,
} from "../../../../src/proxies/syscall/libc.ts";
import { Poller } from "../../../../src/proxies/syscall/poller.ts";
import { SocketAddress } from "../../../../src/proxies/syscall/socket-address.ts";
import {
	connectDatagramSocket,
	openDatagramSockets,
} from "../../../../src/proxies/syscall/udp-sockets.ts";
import { UdpWorker } from "../../../../src/proxies/syscall/udp-worker.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { anEndpoint, aUdpServicePort } from "../../../conformance/udp-lab.ts";
import { anAddress } from "../builders.ts";

const LOOPBACK = anAddress("127.0.0.1");

describe.each([
	["through io_uring", () => new IoRing(MAX_QUEUED_CALLS)],
	["one by one", () => undefined],
])("datagrams by calls that are queued and made %s", (_how, createRing) => {
	let calls: CallQueue;
	const opened = new Set<number>();
	beforeEach(() => {
		calls = new CallQueue(createRing());
	});
	afterEach(() => {
		calls.release();
		for (const fd of opened) close(fd);
		opened.clear();
	});

	function bound(port = 0): { readonly fd: number; readonly port: number } {
		const { fds, port: at } = openDatagramSockets({ family: "ipv4", address: LOOPBACK, port }, 1);
		const [fd = -1] = fds;
		opened.add(fd);
		return { fd, port: at };
	}

	function connected(port: number): number {
		const fd = connectDatagramSocket(new SocketAddress().set("ipv4", LOOPBACK, port));
		opened.add(fd);
		return fd;
	}

	function say(fd: number, text: string): void {
		expect(send(fd, Buffer.from(text), text.length)).toBe(text.length);
	}

	function heard(fd: number): readonly string[] {
		const texts: string[] = [];
		const into = Buffer.alloc(100);
		for (let count = recv(fd, into, 100); count >= 0; count = recv(fd, into, 100)) {
			texts.push(into.toString("utf8", 0, count));
		}
		return texts;
	}

	it.each([0, 120, 128, 200])("come each from its own memory beside %i other calls", (others) => {
		const exchange = new DatagramExchange(calls);
		const poll = epollCreate();
		opened.add(poll);
		for (let count = 0; count < others; count += 1) {
			const fd = eventfd();
			opened.add(fd);
			calls.epollAdd(poll, fd, EPOLLIN, 1, { onCall: () => {} });
		}
		const texts = Array.from({ length: 20 }, (_, index) => `answer ${index}`);
		const got: string[] = [];
		for (const text of texts) {
			const receiver = bound();
			say(connected(receiver.port), text);
			exchange.receiveSingle(receiver.fd, {
				onCall: (_operation, result, slot) => got.push(String(exchange.takeSingle(slot, result))),
			});
		}
		calls.run();
		expect(got).toEqual(texts);
	});

	it("reach one endpoint only, when the first refuses and comes back meanwhile", () => {
		const poller = new Poller(calls, (fd) => opened.delete(fd));
		const worker = new UdpWorker(
			{
				hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {} },
				clock: systemClock,
				createBalancer: () => expect.unreachable("the worker makes its own"),
				nextId: () => "1",
				repeat: () => () => {},
				leadsBack: () => false,
				onUdpFault: () => {},
				budget: new DescriptorBudget(1_000),
			},
			{ idleMs: 30_000, firstAnswerMs: 5_000, maxFlows: 100 },
			poller,
			calls,
			(fd) => opened.add(fd),
		);
		const dead = bound();
		close(dead.fd);
		opened.delete(dead.fd);
		const second = bound();
		const listener = bound();
		const endpoints = [dead, second].map(({ port }) => anEndpoint("127.0.0.1", port));
		worker.open(
			1,
			[listener.fd],
			aUdpServicePort({ endpoints }),
			{ now: () => performance.now(), random: () => 0 },
			undefined,
		);
		const turn = () => {
			poller.wait(0);
			calls.run();
			poller.closeDue();
			worker.flush();
		};
		const client = connected(listener.port);
		say(client, "one");
		turn();
		const revived = bound(dead.port);
		say(client, "two");
		for (let count = 0; count < 3; count += 1) turn();
		expect(heard(revived.fd)).toEqual([]);
		expect(heard(second.fd)).toEqual(["one", "two"]);
		worker.stop("stopped");
		poller.close();
	});
});
