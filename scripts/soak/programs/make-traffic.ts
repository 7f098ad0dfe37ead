import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { tcpTraffic, udpTraffic } from "../../../test/kit/agent-clients.ts";
import { HeldConnection } from "../../../test/kit/agent-connection.ts";
import { patternSha256 } from "../../../test/kit/agent-pattern.ts";
import type { TcpResult, TcpTraffic, UdpResult } from "../../../test/kit/agent-protocol.ts";
import { seededRandom } from "../../../test/kit/faulty-runner.ts";
import { addressOf, PORT, SERVICES, type TrafficKind } from "../services.ts";
import { type Failure, TrafficBooks } from "../traffic-books.ts";

/*
 * The clients of a soak: `make-traffic.ts SEED` inside a namespace makes traffic of all kinds until its
 * standard input ends, and then prints one line: a TrafficReport as JSON.
 *
 * Bounded: so many of each kind at once, with pauses, whatever the daemon could carry.
 */

const KIB = 1024;

/**
 * Clients of UDP come back with the ports that they had, when their flows have ended: so those that the
 * daemon keeps in mind are all known soon.
 */
const FIRST_UDP_PORT = 20_000;
const UDP_PORTS = 200;
const TIMEOUT_MS = 30_000;

/** What has to be the same for each kind: it goes on until it is told to stop. */
const books = new TrafficBooks();
const random = seededRandom(Number(process.argv[2] ?? 1));
let isStopping = false;

const upTo = (most: number): number => 1 + Math.floor(random() * most);

async function repeat(pauseMs: number, step: () => Promise<void>): Promise<void> {
	while (!isStopping) {
		// oxlint-disable-next-line no-await-in-loop -- one after the other
		await step();
		// oxlint-disable-next-line no-await-in-loop -- the pause bounds the load
		await sleep(pauseMs * (0.5 + random()));
	}
}

const at = (kind: TrafficKind) => ({ address: addressOf(SERVICES[kind]), port: PORT });

/** One connection with some requests, each answered before the next. */
async function requests(): Promise<void> {
	const startedAtMs = Date.now();
	let bytes = 0;
	const fail = (what: string): void => books.failed("requests", { startedAtMs, what }, bytes);
	const connection = new HeldConnection(at("requests"));
	try {
		await connection.opened(TIMEOUT_MS);
		for (let left = upTo(20); left > 0 && !isStopping; left -= 1) {
			const size = upTo(20 * KIB);
			bytes += size;
			await connection.write("", size, TIMEOUT_MS);
			const { bytes: got, error } = await connection.read(bytes, TIMEOUT_MS);
			if (got !== bytes) return fail(error ?? `${got} of ${bytes} bytes came back`);
			await sleep(10);
		}
		await connection.finish("end");
		const end = await connection.read("end", TIMEOUT_MS);
		if (end.error !== undefined || !end.ended) return fail(end.error ?? "no end");
		if (end.sha256 !== patternSha256(bytes)) return fail("other bytes");
		books.whole("requests", bytes, bytes);
	} catch (error) {
		fail(String(error));
	} finally {
		await connection.finish("destroy");
	}
}

/** Connections that end in order: what went is what comes back. */
async function echoes(
	kind: "connections" | "bulk",
	count: number,
	mostBytes: number,
): Promise<void> {
	const sendBytes = upTo(mostBytes);
	const startedAtMs = Date.now();
	const concurrency = Math.min(4, count);
	const traffic = { ...at(kind), count, concurrency, sendBytes, timeoutMs: TIMEOUT_MS };
	for (const { error, bytes, sha256 } of await tcpTraffic(traffic)) {
		const isWhole = bytes === sendBytes && sha256 === patternSha256(sendBytes);
		if (error === undefined && isWhole) books.whole(kind, sendBytes, sendBytes);
		else {
			const what = error ?? `${bytes} of ${sendBytes} bytes came back, or others`;
			books.failed(kind, { startedAtMs, what }, sendBytes);
		}
	}
}

/** Connections that the client cuts: at once, when it has sent, or in the middle of the answer. */
async function cuts(): Promise<void> {
	const sendBytes = upTo(random() < 0.2 ? 2048 * KIB : 64 * KIB);
	const which = random();
	const after: NonNullable<TcpTraffic["after"]> =
		which < 0.2 ? "connect" : which < 0.6 ? "reset" : upTo(sendBytes);
	const traffic = { ...at("cuts"), count: 4, concurrency: 2, sendBytes, after };
	for (const result of await tcpTraffic({ ...traffic, timeoutMs: TIMEOUT_MS })) {
		takeCut("cuts", result, after === "connect" ? 0 : sendBytes);
	}
}

/** Connections that the endpoint cuts. */
async function resets(): Promise<void> {
	const sendBytes = upTo(256 * KIB);
	const traffic = { ...at("resets"), count: 4, concurrency: 2, sendBytes, after: "read" } as const;
	for (const result of await tcpTraffic({ ...traffic, timeoutMs: TIMEOUT_MS })) {
		const isReset = result.error === "ECONNRESET" || result.error === "EPIPE";
		if (!isReset) books.fault(`an endpoint's reset came as ${result.error ?? "an end"}`);
		takeCut("resets", result, sendBytes);
	}
}

function takeCut(kind: "cuts" | "resets", result: TcpResult, offered: number): void {
	if (!result.connected || result.error === "TIMEOUT") {
		books.fault(`${kind}: ${result.error ?? "not connected"}`);
	}
	if (result.connected) books.cut(kind, result.bytes, offered);
}

/** Flows: the same socket for some datagrams, and a socket for each. */
async function datagrams(): Promise<void> {
	const sendBytes = upTo(random() < 0.05 ? 32 * KIB : 1400);
	const socketEach = random() < 0.5;
	const startedAtMs = Date.now();
	const localPort = FIRST_UDP_PORT + Math.floor(random() * UDP_PORTS);
	const traffic = {
		...at("datagrams"),
		count: 10,
		socketEach,
		localPort,
		sendBytes,
		timeoutMs: 5000,
	};
	const results = await udpTraffic(traffic);
	for (const result of results) takeDatagram(result, sendBytes, startedAtMs);
}

function takeDatagram({ error, sha256 }: UdpResult, bytes: number, startedAtMs: number): void {
	if (error === undefined && sha256 === patternSha256(bytes)) books.datagram(bytes);
	else {
		const failure: Failure = { startedAtMs, what: error ?? "another answer" };
		books.failedDatagram(failure, bytes);
	}
}

const loops = [
	...Array.from({ length: 6 }, () => repeat(50, requests)),
	repeat(100, () => echoes("connections", 10, 8 * KIB)),
	repeat(100, () => echoes("connections", 10, 64 * KIB)),
	repeat(400, () => echoes("bulk", 1, 12 * 1024 * KIB)),
	repeat(100, cuts),
	repeat(200, resets),
	repeat(100, datagrams),
];
const input = createInterface({ input: process.stdin });
input.once("close", () => {
	isStopping = true;
});
await Promise.all(loops);
process.stdout.write(`${JSON.stringify(books.report())}\n`);
