import { type IpFamily, parseIpAddress } from "../../services/address.ts";
import { errorCode } from "../../shared/errors.ts";
import {
	accept4,
	clearEventfd,
	close,
	connect,
	EINPROGRESS,
	EPOLLIN,
	EpollEvents,
	epollAdd,
	epollCreate,
	epollWait,
	eventfd,
	recv,
	SOCK_STREAM,
	send,
	setResetOnClose,
	signalEventfd,
	socket,
	splice,
} from "../../system/libc.ts";
import { must, mustBe } from "../../system/system-error.ts";
import { DescriptorBudget } from "../descriptor-budget.ts";
import type { BoundSockets } from "./bound-sockets.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { EndsSender, endsTo } from "./datagram-ends.ts";
import { PipePool } from "./pipe-pool.ts";
import { SocketAddress } from "./socket-address.ts";
import { openListenSockets } from "./tcp-sockets.ts";
import { connectDatagramSocket, openDatagramSockets } from "./udp-sockets.ts";

/** A lone byte on loopback is there at once. */
const WAIT_MS = 1_000;

const LOOPBACK = ["127.0.0.1", "::1"] as const;

/** What the kernel says where it was built without IPv6, or is not to use it. */
const NO_IPV6: ReadonlySet<string> = new Set(["EAFNOSUPPORT", "EADDRNOTAVAIL"]);

/** Any number but 0, so that one that is lost is seen. */
const WAKE_TAG = 7;

/**
 * Makes each system call that the engine lives on once, on loopback: a library that does not load, a
 * sandbox that forbids a call, or a wrong layout shows before traffic depends on it.
 *
 * @throws the error of the first that does not work, which names it; nothing is open then.
 */
export function testSystemCalls(): void {
	const opened: number[] = [];
	try {
		run(opened);
	} finally {
		for (const fd of opened) close(fd);
	}
}

function run(opened: number[]): void {
	const open = (name: string, fd: number): number => {
		opened.push(must(name, fd));
		return fd;
	};
	const loopback = parseIpAddress("127.0.0.1");
	const { fds, port } = openListenSockets({ family: "ipv4", address: loopback, port: 0 }, 1);
	const [listening = -1] = fds;
	opened.push(listening);
	const poll = open("epoll_create1", epollCreate());
	const wake = open("eventfd", eventfd());
	must("epoll_ctl", epollAdd(poll, wake, EPOLLIN, WAKE_TAG));
	must("eventfd", signalEventfd(wake));
	const events = new EpollEvents(4);
	mustBe("epoll_wait", must("epoll_wait", epollWait(poll, events, WAIT_MS)), 1);
	mustBe("epoll_wait", events.fd(0), wake);
	mustBe("epoll_wait", events.tag(0), WAKE_TAG);
	mustBe("eventfd", clearEventfd(wake), 8);
	const to = new SocketAddress().set("ipv4", loopback, port);
	const client = open("socket", socket(to.domain, SOCK_STREAM));
	const connected = connect(client, to.bytes, to.length);
	if (connected !== -EINPROGRESS) must("connect", connected);
	must("epoll_ctl", epollAdd(poll, listening, EPOLLIN, 0));
	mustBe("epoll_wait", must("epoll_wait", epollWait(poll, events, WAIT_MS)), 1);
	const from = new SocketAddress();
	const server = open("accept4", accept4(listening, from.bytes));
	if (from.address !== loopback)
		throw new Error(`accept4 told ${from.address} of a client on loopback`);
	must("epoll_ctl", epollAdd(poll, server, EPOLLIN, 0));
	for (const address of LOOPBACK) {
		exchangeDatagrams(address, open, () => epollWait(poll, events, WAIT_MS), poll);
	}
	passThroughPipe(client, server, () => epollWait(poll, events, WAIT_MS));
	must("setsockopt", setResetOnClose(client));
}

/** Two datagrams go to an address, and one comes back from there. */
function exchangeDatagrams(
	loopback: string,
	open: (name: string, fd: number) => number,
	wait: () => number,
	poll: number,
): void {
	const bound = openReceiver(loopback);
	if (bound === undefined) return;
	const receiver = open("socket", bound.fds[0] ?? -1);
	const address = parseIpAddress(loopback);
	const to = new SocketAddress().set(familyOf(loopback), address, bound.port);
	const sender = open("connect", connectDatagramSocket(to));
	const batch = new DatagramBatch(2, 16);
	const texts = ["one", "two"].map((text) => Buffer.from(text));
	for (const [slot, text] of texts.entries()) batch.fill(slot, text, endsTo(to));
	mustBe("sendmmsg", batch.send(sender, 0, 2), 2);
	must("epoll_ctl", epollAdd(poll, receiver, EPOLLIN, 0));
	wait();
	const received = new DatagramBatch(4, 16);
	mustBe("recvmmsg", received.receive(receiver), 2);
	for (const [slot, text] of texts.entries()) {
		if (!received.datagram(slot).equals(text)) throw new Error("recvmmsg gave other datagrams");
	}
	const { asked } = new EndsSender(received.ends(0));
	if (asked !== loopback) throw new Error(`recvmmsg told ${asked} of a datagram to ${loopback}`);
	batch.fill(0, received.datagram(0), received.ends(0));
	mustBe("sendmmsg", batch.send(receiver, 0, 1), 1);
	must("epoll_ctl", epollAdd(poll, sender, EPOLLIN, 0));
	wait();
	mustBe("recv", recv(sender, Buffer.alloc(16), 16), 3);
}

/** @returns undefined for IPv6 on a host that has none. */
function openReceiver(loopback: string): BoundSockets | undefined {
	const family = familyOf(loopback);
	try {
		return openDatagramSockets({ family, address: parseIpAddress(loopback), port: 0 }, 1);
	} catch (error) {
		if (family === "ipv6" && NO_IPV6.has(errorCode(error) ?? "")) return undefined;
		throw error;
	}
}

function familyOf(address: string): IpFamily {
	return address.includes(":") ? "ipv6" : "ipv4";
}

function passThroughPipe(client: number, server: number, wait: () => number): void {
	const pipes = new PipePool(
		new DescriptorBudget(2),
		() => {},
		() => {},
	);
	const pipe = pipes.take();
	if (pipe === undefined) throw new Error("no pipe could be opened");
	const buffer = Buffer.alloc(16);
	buffer.write("hello");
	try {
		mustBe("send", send(client, buffer, 5), 5);
		wait();
		mustBe("splice", splice(server, pipe.writeFd, 5), 5);
		mustBe("splice", splice(pipe.readFd, server, 5), 5);
		mustBe("recv", recv(client, buffer, 5), 5);
	} finally {
		pipes.give(pipe, true);
		pipes.clear();
	}
}
