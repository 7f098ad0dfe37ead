import { connect, type Socket } from "node:net";

import { afterEach, beforeEach, expect, test as it } from "vitest";
import { resetSocket } from "../../src/proxies/stream/reset-socket.ts";
import type { ConnectionRecord } from "../../src/services/connection-record.ts";
import { seededRandom } from "../kit/faulty-runner.ts";
import { type CreateEngine, someBytes, TcpLab, until } from "./tcp-lab.ts";

const COUNT = 10_000;
const AT_ONCE = 64;
const MAX_BYTES = 1024 * 1024;

/** The first bytes of a client: its number, by which the endpoint knows what to do. */
const HEADER_BYTES = 4;

/** What is sent is a piece of this. */
const source = someBytes(2 * MAX_BYTES);

/** What is to happen on one connection: the same for the same seed. */
interface Plan {
	readonly number: number;
	readonly up: Buffer;
	readonly down: Buffer;
	/** Who cuts it off, once it has read so many bytes; undefined: it ends in order. */
	readonly cut: { readonly by: "client" | "endpoint"; readonly atBytes: number } | undefined;
	readonly isReset: boolean;
}

/** Bounds of what one peer of a connection saw. */
interface Seen {
	readonly received: number;
	/** It was, byte by byte, what the other side has sent, from its beginning on. */
	readonly isIntact: boolean;
	readonly hasEnd: boolean;
}

/** Many connections of random lengths, half of them cut at random. */
export function describeRandomCuts(createEngine: CreateEngine): void {
	let lab: TcpLab;
	beforeEach(() => {
		lab = new TcpLab(createEngine);
	});
	afterEach(() => lab.close());

	it("each byte is accounted for, and nothing is left", async () => {
		const seed = Math.floor(Math.random() * 2 ** 31);
		const random = seededRandom(seed);
		const plans = Array.from({ length: COUNT }, (_, number) => plan(number, random));
		const atEndpoint = new Map<number, Seen>();
		const endpoint = await lab.endpoint((socket) => serve(socket, plans, atEndpoint));
		const port = await lab.serve({ endpoints: [endpoint.endpoint] });
		const used = lab.engine.descriptors.used;

		const atClient = new Map<number, Seen>();
		let next = 0;
		const worker = async () => {
			for (let each = plans[next]; each !== undefined; each = plans[next]) {
				next += 1;
				atClient.set(each.number, await ask(port, each));
			}
		};
		await Promise.all(Array.from({ length: AT_ONCE }, worker));
		await lab.settled();
		await until(() => endpoint.sockets.size === 0, "the endpoint's sockets to be closed");

		const records = new Map(lab.records.map((record) => [hostOf(record), record]));
		expect(records.size).toBe(lab.records.length);
		const faults = plans.flatMap((each) =>
			faultsOf(each, {
				atClient: atClient.get(each.number),
				atEndpoint: atEndpoint.get(each.number),
				record: records.get(addressOf(each.number)),
			}),
		);
		expect(faults, `seed ${seed}`).toEqual([]);
		// But for pipes that wait for the next ones who move much.
		expect(lab.engine.descriptors.used - used).toBeLessThanOrEqual(MAX_IDLE_PIPE_ENDS);
	}, 60_000);
}

/** Of two workers, 16 pipes each. */
const MAX_IDLE_PIPE_ENDS = 64;

function plan(number: number, random: () => number): Plan {
	const piece = () => {
		const start = Math.floor(random() * MAX_BYTES);
		// Most are short, and one in forty long enough to go through a pipe.
		return source.subarray(start, start + Math.floor(random() ** 60 * MAX_BYTES));
	};
	const header = Buffer.alloc(HEADER_BYTES);
	header.writeUInt32LE(number);
	const up = Buffer.concat([header, piece()]);
	const down = piece();
	const which = random();
	const at = random();
	const isReset = random() < 0.5;
	if (which < 0.5) return { number, up, down, cut: undefined, isReset };
	const cut =
		which < 0.75
			? { by: "client" as const, atBytes: Math.floor(at * down.length) }
			: {
					by: "endpoint" as const,
					atBytes: HEADER_BYTES + Math.floor(at * (up.length - HEADER_BYTES)),
				};
	return { number, up, down, cut, isReset };
}

/** A loopback address for each client: ports are used again. */
function addressOf(number: number): string {
	return `127.1.${number >> 8}.${number & 255}`;
}

function hostOf({ client }: ConnectionRecord): string {
	return client.slice(0, client.indexOf(":"));
}

/** One client: sends all, ends, reads to the end unless it is cut. */
function ask(port: number, { number, up, down, cut, isReset }: Plan): Promise<Seen> {
	return new Promise((resolve) => {
		const localAddress = addressOf(number);
		const socket = connect({ host: "127.0.0.1", port, localAddress, allowHalfOpen: true });
		const cutAt = cut?.by === "client" ? cut.atBytes : undefined;
		const seen = watch(socket, down, cutAt, isReset);
		socket.once("connect", () => {
			socket.end(up);
			if (cutAt === 0) cutOff(socket, isReset);
		});
		socket.on("error", () => {});
		socket.once("close", () => resolve(seen()));
	});
}

/** The endpoint's side, which learns from the first bytes which connection it is. */
function serve(socket: Socket, plans: readonly Plan[], atEndpoint: Map<number, Seen>): void {
	socket.once("data", (first: Buffer) => {
		// They were written at once, with what follows: no kernel cuts them in two.
		const each = plans[first.readUInt32LE()] ?? expect.unreachable("no such connection");
		const cutAt = each.cut?.by === "endpoint" ? each.cut.atBytes : undefined;
		socket.end(each.down);
		const seen = watch(socket, each.up, cutAt, each.isReset, first);
		socket.once("close", () => atEndpoint.set(each.number, seen()));
	});
	socket.resume();
}

/**
 * Compares what comes with what was sent, and cuts when so much has come.
 *
 * @param first what has come already.
 */
function watch(
	socket: Socket,
	expected: Buffer,
	cutAt: number | undefined,
	isReset: boolean,
	first: Buffer = Buffer.alloc(0),
): () => Seen {
	let received = 0;
	let isIntact = true;
	let hasEnd = false;
	const take = (chunk: Buffer): void => {
		if (socket.destroyed) return;
		isIntact &&= chunk.equals(expected.subarray(received, received + chunk.length));
		received += chunk.length;
		if (cutAt !== undefined && received > 0 && received >= cutAt) cutOff(socket, isReset);
	};
	socket.on("data", take);
	socket.once("end", () => {
		hasEnd = true;
	});
	take(first);
	socket.resume();
	return () => ({ received, isIntact, hasEnd });
}

function cutOff(socket: Socket, isReset: boolean): void {
	// Node loses sockets that are reset while their end is under way.
	if (isReset) resetSocket(socket);
	else socket.destroy();
}

interface Found {
	readonly atClient: Seen | undefined;
	readonly atEndpoint: Seen | undefined;
	readonly record: ConnectionRecord | undefined;
}

/** What was not as it has to be. */
function faultsOf(each: Plan, { atClient, atEndpoint, record }: Found): readonly string[] {
	const { number, up, down, cut, isReset } = each;
	const faults: string[] = [];
	const check = (holds: boolean, what: string) => {
		if (!holds) faults.push(`${number} (${JSON.stringify(cut)}, ${isReset}): ${what}`);
	};
	const inBytes = atEndpoint?.received ?? 0;
	const outBytes = atClient?.received ?? 0;
	check(atEndpoint?.isIntact !== false, "the endpoint got other bytes");
	check(atClient?.isIntact !== false, "the client got other bytes");
	if (record === undefined) {
		// A client that resets at once may be gone before it is accepted.
		check(cut?.by === "client" && cut.atBytes === 0 && inBytes === 0, "no record");
		return faults;
	}
	const { bytesIn, bytesOut, end } = record;
	const told = `record says ${end}, ${bytesIn} in, ${bytesOut} out; seen ${inBytes}, ${outBytes}`;
	if (cut === undefined) {
		const isWhole = inBytes === up.length && outBytes === down.length;
		check(isWhole && atClient?.hasEnd === true && atEndpoint?.hasEnd === true, "not whole");
		check(end === "closed" && bytesIn === inBytes && bytesOut === outBytes, told);
		return faults;
	}
	check(inBytes <= bytesIn && bytesIn <= up.length, told);
	check(outBytes <= bytesOut && bytesOut <= down.length, told);
	const ends = [`${cut.by}-reset`, "closed", ...(cut.by === "client" ? ["client-gone"] : [])];
	check(ends.includes(end), told);
	return faults;
}
