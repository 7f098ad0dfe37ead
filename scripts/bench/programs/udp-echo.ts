/**
 * Answers each datagram with itself, by few system calls: so that an endpoint is not what is measured.
 *
 *     node scripts/bench/programs/udp-echo.ts ADDRESS PORT
 */
import { DatagramBatch } from "../../../src/proxies/syscall/datagram-batch.ts";
import { openDatagramSockets } from "../../../src/proxies/syscall/udp-sockets.ts";
import { parseIpAddress } from "../../../src/services/address.ts";
import {
	EAGAIN,
	EPOLLIN,
	EpollEvents,
	epollAdd,
	epollCreate,
	epollWait,
} from "../../../src/system/libc.ts";

const SLOTS = 64;
const SLOT_BYTES = 2_048;

const [address = "", port = ""] = process.argv.slice(2);
const place = { family: "ipv4", address: parseIpAddress(address), port: Number(port) } as const;
const [fd = -1] = openDatagramSockets(place, 1).fds;
const poll = epollCreate();
epollAdd(poll, fd, EPOLLIN, 0);
const events = new EpollEvents(1);
const questions = new DatagramBatch(SLOTS, SLOT_BYTES);
const answers = new DatagramBatch(SLOTS, SLOT_BYTES);
process.stdout.write("ready\n");
for (;;) {
	epollWait(poll, events, -1);
	answer(questions.receive(fd));
}

function answer(count: number): void {
	for (let slot = 0; slot < count; slot += 1) {
		answers.fill(slot, questions.datagram(slot), questions.ends(slot));
	}
	for (let first = 0; first < count; ) {
		const sent = answers.send(fd, first, count - first);
		// What cannot go is lost, as on a network; only a full buffer is worth another try.
		if (sent !== -EAGAIN) first += Math.max(1, sent);
	}
}
