import { parseIpAddress } from "../../services/address.ts";
import { describeError } from "../../shared/errors.ts";
import {
	accept4,
	addressOf,
	close,
	EPOLLIN,
	EpollEvents,
	epollCreate,
	epollWait,
	setResetOnClose,
} from "../../system/libc.ts";
import { must, mustBe } from "../../system/system-error.ts";
import { type CallOwner, CallQueue } from "./call-queue.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { IoRing } from "./io-ring.ts";
import { SocketAddress } from "./socket-address.ts";
import { openListenSockets, startConnect } from "./tcp-sockets.ts";
import { connectDatagramSocket, openDatagramSockets } from "./udp-sockets.ts";

const CALLS = 8;
/** On loopback, what was sent is there at once. */
const WAIT_MS = 1_000;
const LOOPBACK = parseIpAddress("127.0.0.1");
const TEXT = "hello";
/** Any number but 0, so that one that is lost is seen. */
const TAG = 7;

/**
 * Makes each call that goes through a ring once, on loopback: io_uring may be missing, forbidden, or too old.
 *
 * @returns why it cannot be used; undefined where it can. Nothing is open then.
 */
export function findRingProblem(): string | undefined {
	const opened: number[] = [];
	let ring: IoRing | undefined;
	try {
		ring = new IoRing(CALLS);
		const open = (name: string, fd: number): number => {
			opened.push(must(name, fd));
			return fd;
		};
		test(new CallQueue(ring), open);
		return undefined;
	} catch (error) {
		return describeError(error);
	} finally {
		for (const fd of opened) close(fd);
		ring?.close();
	}
}

/** @throws where a call fails or does something else. */
function test(calls: CallQueue, open: (name: string, fd: number) => number): void {
	const results: number[] = [];
	const owner: CallOwner = {
		onCall: (_operation, result) => results.push(result),
	};
	/** More than one each time: a lone call is not made through the ring. */
	const run = (what: string, wanted: readonly number[]): void => {
		results.length = 0;
		calls.run();
		for (const [index, each] of wanted.entries()) mustBe(what, results[index] ?? 0, each);
	};
	const { fds, port } = openListenSockets({ family: "ipv4", address: LOOPBACK, port: 0 }, 1);
	const listening = open("listen", fds[0] ?? -1);
	const to = new SocketAddress().set("ipv4", LOOPBACK, port);
	const client = open("connect", startConnect(to, false));
	// Else the kernel would keep it in TIME_WAIT.
	must("setsockopt", setResetOnClose(client));
	const server = open("accept4", accept4(listening, new SocketAddress().bytes));
	const bound = openDatagramSockets({ family: "ipv4", address: LOOPBACK, port: 0 }, 1);
	const receiver = open("bind", bound.fds[0] ?? -1);
	const sender = open("connect", connectDatagramSocket(to.set("ipv4", LOOPBACK, bound.port)));
	const poll = open("epoll_create1", epollCreate());
	const text = Buffer.allocUnsafeSlow(TEXT.length);
	text.write(TEXT);

	calls.sendDatagram(client, text, addressOf(text), owner);
	calls.sendDatagram(sender, text, addressOf(text), owner);
	calls.epollAdd(poll, server, EPOLLIN, TAG, owner);
	run("send or epoll_ctl through io_uring", [text.length, text.length, 0]);
	const events = new EpollEvents(1);
	if (epollWait(poll, events, WAIT_MS) !== 1 || events.tag(0) !== TAG) {
		throw new Error("epoll_ctl through io_uring added something else");
	}
	const batch = new DatagramBatch(1, text.length);
	batch.prepare(0);
	calls.recv(server, owner);
	calls.recvmsg(receiver, batch.headerOf(0), batch.headerAddressOf(0), 0, owner);
	run("recv or recvmsg through io_uring", [text.length, text.length]);
	batch.noteReceived(0, text.length);
	if (!batch.datagram(0).equals(text)) throw new Error("recvmsg through io_uring gave other bytes");
	testClose(calls);
}

function testClose(calls: CallQueue): void {
	const fds = [epollCreate(), epollCreate()];
	for (const fd of fds) calls.close(must("epoll_create1", fd));
	calls.run();
	// Closed, the number is nobody's.
	const left = fds.filter((fd) => close(fd) === 0);
	if (left.length > 0) throw new Error("close through io_uring closed nothing");
}
