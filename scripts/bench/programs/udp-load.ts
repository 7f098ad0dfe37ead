/**
 * Closed-loop UDP load: each of so many flows has one datagram under way, and sends the next when the
 * answer is there. Prints one line of JSON.
 *
 *     node scripts/bench/programs/udp-load.ts ADDRESS PORT FLOWS BYTES SECONDS
 */

import { SocketAddress } from "../../../src/proxies/syscall/socket-address.ts";
import { connectDatagramSocket } from "../../../src/proxies/syscall/udp-sockets.ts";
import { ipFamilyOf, parseIpAddress } from "../../../src/services/address.ts";
import {
	EPOLLIN,
	EpollEvents,
	epollAdd,
	epollCreate,
	epollWait,
	recv,
	send,
} from "../../../src/system/libc.ts";
import { LatencyCounts } from "../latency-counts.ts";

/** What it prints. */
export interface UdpLoadResult {
	/** Round trips that were made. */
	readonly count: number;
	readonly seconds: number;
	readonly p50Ms: number;
	readonly p99Ms: number;
	/** Datagrams without an answer. */
	readonly lost: number;
}

/** A datagram that has no answer for so long is lost: the flow sends another one. */
const LOST_MS = 200;

const [addressText = "", port, flowCount, bytes, seconds] = process.argv.slice(2);
const address = parseIpAddress(addressText);
if (address === undefined) throw new TypeError(`Cannot send to "${addressText}": no IP address`);
const to = new SocketAddress().set(ipFamilyOf(address), address, Number(port));
const datagram = Buffer.alloc(Number(bytes), "x");
const received = Buffer.alloc(65_536);
const poll = epollCreate();
const events = new EpollEvents(256);
const flows = Array.from({ length: Number(flowCount) }, openFlow);
/** By descriptor: when the flow's datagram was sent. */
const sentAtMs = new Float64Array(Math.max(...flows) + 1);
const latencies = new LatencyCounts();
let lost = 0;

const beganMs = performance.now();
for (const fd of flows) say(fd, beganMs);
const endMs = beganMs + Number(seconds) * 1_000;
let nowMs = beganMs;
let lookedAtMs = beganMs;
while (nowMs < endMs) {
	const count = epollWait(poll, events, LOST_MS);
	nowMs = performance.now();
	for (let index = 0; index < count; index += 1) hear(events.fd(index), nowMs);
	if (nowMs - lookedAtMs >= LOST_MS) {
		lookedAtMs = nowMs;
		replaceLost();
	}
}
const result: UdpLoadResult = {
	count: latencies.count,
	seconds: (nowMs - beganMs) / 1_000,
	p50Ms: latencies.quantileMs(0.5),
	p99Ms: latencies.quantileMs(0.99),
	lost,
};
process.stdout.write(`${JSON.stringify(result)}\n`);

function openFlow(): number {
	const fd = connectDatagramSocket(to);
	if (fd < 0) throw new Error(`Cannot open a socket to ${addressText}: error ${-fd}`);
	epollAdd(poll, fd, EPOLLIN, 0);
	return fd;
}

function say(fd: number, atMs: number): void {
	sentAtMs[fd] = atMs;
	send(fd, datagram, datagram.length);
}

function hear(fd: number, atMs: number): void {
	const length = recv(fd, received, received.length);
	// Refused: replaceLost() counts it and tries again, which keeps the tries of a dead port few.
	if (length !== datagram.length) return;
	latencies.add(atMs - (sentAtMs[fd] ?? atMs));
	say(fd, atMs);
}

function replaceLost(): void {
	for (const fd of flows) {
		if (nowMs - (sentAtMs[fd] ?? nowMs) < LOST_MS) continue;
		lost += 1;
		say(fd, nowMs);
	}
}
