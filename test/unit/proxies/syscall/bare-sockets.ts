import { expect } from "vitest";
import { MAX_QUEUED_CALLS } from "../../../../src/proxies/syscall/call-queue.ts";
import { IoRing } from "../../../../src/proxies/syscall/io-ring.ts";
import { SocketAddress } from "../../../../src/proxies/syscall/socket-address.ts";
import { openListenSockets, startConnect } from "../../../../src/proxies/syscall/tcp-sockets.ts";
import { accept4, close, recv, send } from "../../../../src/system/libc.ts";
import { codeOf } from "../../../../src/system/system-error.ts";
import { anAddress } from "../builders.ts";

/** How a queue makes its calls, and with what. */
export const WAYS_OF_CALLING: readonly (readonly [how: string, () => IoRing | undefined])[] = [
	["through io_uring", () => new IoRing(MAX_QUEUED_CALLS)],
	["one by one", () => undefined],
];

export const LOOPBACK = anAddress("127.0.0.1");

/** Both ends of a connection on loopback. To be closed by whoever asked for it. */
export interface Connection {
	readonly near: number;
	readonly far: number;
}

export function aBareConnection(): Connection {
	const { fds, port } = openListenSockets({ family: "ipv4", address: LOOPBACK, port: 0 }, 1);
	const [listening = -1] = fds;
	const near = startConnect(addressAt(port), false);
	const far = accept4(listening, new SocketAddress().bytes);
	close(listening);
	expect(Math.min(near, far)).toBeGreaterThan(0);
	return { near, far };
}

/** A port on loopback. */
export function addressAt(port: number): SocketAddress {
	return new SocketAddress().set("ipv4", LOOPBACK, port);
}

export function say(fd: number, text: string): void {
	expect(send(fd, Buffer.from(text), text.length)).toBe(text.length);
}

/** What is there, or the code of the error: "EAGAIN" where there is nothing. */
export function heard(fd: number): string {
	const into = Buffer.alloc(100);
	const count = recv(fd, into, into.length);
	return count < 0 ? codeOf(count) : into.toString("utf8", 0, count);
}
