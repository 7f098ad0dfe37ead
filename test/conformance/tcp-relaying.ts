import type { Socket } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import type { TestEndpoint } from "./tcp-endpoints.ts";
import {
	type CreateEngine,
	endOf,
	openSockets,
	readToEnd,
	sha256,
	someBytes,
	TcpLab,
	until,
} from "./tcp-lab.ts";

const MEGABYTE = 1024 * 1024;

/** More than the kernel's buffers of two connections can take. */
const TOO_MUCH = 64 * MEGABYTE;

/** How bytes, ends and resets go through. */
export function describeRelaying(createEngine: CreateEngine): void {
	let lab: TcpLab;
	beforeEach(() => {
		lab = new TcpLab(createEngine);
	});
	afterEach(() => lab.close());

	/** A client, connected through the engine to an endpoint's socket. Nothing is read. */
	async function aRelay(): Promise<{ client: Socket; server: Socket; endpoint: TestEndpoint }> {
		const servers: Socket[] = [];
		const endpoint = await lab.endpoint((socket) => servers.push(socket));
		const client = await lab.connect(await lab.serve({ endpoints: [endpoint.endpoint] }));
		await until(() => servers.length > 0, "the endpoint to accept");
		await until(
			async () => (await lab.engine.connections())[0]?.state === "open",
			"the relay to be open",
		);
		return { client, server: servers[0] ?? expect.unreachable(), endpoint };
	}

	describe("bytes", () => {
		it("10 MB go both ways at once, whole", async () => {
			const { client, server } = await aRelay();
			const up = someBytes(10 * MEGABYTE);
			const down = Buffer.from(up).reverse();
			client.end(up);
			server.end(down);
			const [atServer, atClient] = await Promise.all([readToEnd(server), readToEnd(client)]);
			expect(sha256(atServer)).toBe(sha256(up));
			expect(sha256(atClient)).toBe(sha256(down));
			expect(await lab.record()).toMatchObject({
				end: "closed",
				bytesIn: up.length,
				bytesOut: down.length,
			});
		});

		it("single bytes go both ways", async () => {
			const { client, server } = await aRelay();
			const [atServer, atClient] = [readToEnd(server), readToEnd(client)];
			const text = Buffer.from("0123456789".repeat(30));
			for (const byte of text) {
				client.write(Buffer.of(byte));
				server.write(Buffer.of(byte));
				await new Promise((resolve) => setImmediate(resolve));
			}
			client.end();
			server.end();
			expect(sha256(await atServer)).toBe(sha256(text));
			expect(sha256(await atClient)).toBe(sha256(text));
		});

		it.each(["client", "endpoint"] as const)(
			"a %s that does not read holds the other back",
			async (side) => {
				const { client, server } = await aRelay();
				const [sender, reader] = side === "client" ? [server, client] : [client, server];
				const sent = someBytes(TOO_MUCH);
				sender.end(sent);
				let before = -1;
				// Stalled: nothing has moved between two looks.
				await until(async () => {
					const [live] = await lab.engine.connections();
					const now = (live?.bytesIn ?? 0) + (live?.bytesOut ?? 0);
					const stalled = now > 0 && now === before;
					before = now;
					return stalled;
				}, "the sender to be held back");
				expect(before).toBeLessThan(TOO_MUCH);
				expect(sender.writableLength).toBeGreaterThan(0);
				expect(sha256(await readToEnd(reader))).toBe(sha256(sent));
			},
		);
	});

	describe("ends", () => {
		it("an answer comes whole after the client has ended sending (case 1a, classic 9.1.25)", async () => {
			const { client, server } = await aRelay();
			const answer = someBytes(200_000);
			client.end("hello");
			expect((await readToEnd(server)).toString()).toBe("hello");
			await until(
				async () => (await lab.engine.connections())[0]?.state === "half-closed",
				"an end",
			);
			server.end(answer);
			expect(sha256(await readToEnd(client))).toBe(sha256(answer));
			expect(await lab.record()).toMatchObject({ end: "closed", bytesIn: 5, bytesOut: 200_000 });
		});

		it("an upload of 10 MB goes on after the endpoint has ended sending (case 1b, classic 9.1.25)", async () => {
			const { client, server } = await aRelay();
			const upload = someBytes(10 * MEGABYTE);
			server.end("bye");
			expect((await readToEnd(client)).toString()).toBe("bye");
			client.end(upload);
			expect(sha256(await readToEnd(server))).toBe(sha256(upload));
			expect(await lab.record()).toMatchObject({
				end: "closed",
				bytesIn: upload.length,
				bytesOut: 3,
			});
		});

		it("both may end with 10 MB in flight to one who reads late", async () => {
			const { client, server } = await aRelay();
			const down = someBytes(10 * MEGABYTE);
			client.end();
			server.resume();
			server.end(down);
			await until(
				async () => (await lab.engine.connections())[0]?.state === "half-closed",
				"an end",
			);
			expect(sha256(await readToEnd(client))).toBe(sha256(down));
		});

		it("a FIN alone is a FIN (case 1c)", async () => {
			const { client, server } = await aRelay();
			const open = openSockets();
			client.end();
			expect(await endOf(server)).toBe("end");
			server.end();
			expect(await endOf(client)).toBe("end");
			expect(await lab.record()).toMatchObject({ end: "closed", bytesIn: 0, bytesOut: 0 });
			// The client's, the endpoint's, and both of the relay.
			await until(() => openSockets() <= open - 4, "every socket to be closed");
		});
	});

	describe("resets", () => {
		it("of the client is a reset to the endpoint", async () => {
			const { client, server } = await aRelay();
			const atServer = endOf(server);
			client.write("hello", () => client.resetAndDestroy());
			expect(await atServer).toBe("ECONNRESET");
			expect(await lab.record()).toMatchObject({ end: "client-reset" });
		});

		it("of the endpoint is a reset to the client", async () => {
			const { client, server } = await aRelay();
			const atClient = endOf(client);
			server.resetAndDestroy();
			expect(await atClient).toBe("ECONNRESET");
			expect(await lab.record()).toMatchObject({ end: "endpoint-reset" });
		});

		it("of the endpoint after a byte is no reason to try another one (case 24d)", async () => {
			const cutting = await lab.endpoint((socket) => {
				socket.once("data", () => socket.resetAndDestroy());
				socket.resume();
			});
			const spare = await lab.endpoint((socket) => socket.resume());
			const port = await lab.serve({ endpoints: [cutting.endpoint, spare.endpoint] });
			// One of two in turn comes to the one that cuts.
			const clients = [await lab.connect(port), await lab.connect(port)];
			const ends = clients.map((client) => endOf(client));
			for (const client of clients) client.write("hello");
			expect(await Promise.race(ends)).toBe("ECONNRESET");
			expect(await lab.record()).toMatchObject({
				end: "endpoint-reset",
				endpoint: cutting.endpoint.key,
				attemptCount: 1,
				bytesIn: 5,
			});
			expect([cutting.accepted, spare.accepted]).toEqual([1, 1]);
		});

		it("of the endpoint during an upload", async () => {
			const { client, server } = await aRelay();
			const atClient = endOf(client);
			client.write(someBytes(TOO_MUCH));
			server.once("data", () => server.resetAndDestroy());
			server.resume();
			expect(["ECONNRESET", "EPIPE"]).toContain(await atClient);
			expect(await lab.record()).toMatchObject({ end: "endpoint-reset" });
		});

		it("after the other side has ended", async () => {
			const { client, server } = await aRelay();
			const atServer = endOf(server);
			const atClient = readToEnd(client);
			server.end("bye");
			await atClient;
			client.resetAndDestroy();
			expect(await atServer).toBe("ECONNRESET");
			expect(await lab.record()).toMatchObject({ end: "client-reset", bytesOut: 3 });
		});

		it.each(["client", "endpoint"] as const)("of the %s after its own end", async (side) => {
			const { client, server } = await aRelay();
			const [gone, other] = side === "client" ? [client, server] : [server, client];
			const atOther = endOf(other);
			gone.end();
			expect(await atOther).toBe("end");
			gone.resetAndDestroy();
			expect(await lab.record()).toMatchObject({ end: `${side}-reset` });
		});

		it("of a client that is held back by an endpoint that does not read", async () => {
			const { client } = await aRelay();
			client.write(someBytes(TOO_MUCH));
			let before = -1;
			await until(async () => {
				const now = (await lab.engine.connections())[0]?.bytesIn ?? 0;
				const stalled = now > 0 && now === before;
				before = now;
				return stalled;
			}, "the client to be held back");
			client.resetAndDestroy();
			expect(await lab.record()).toMatchObject({ end: "client-reset" });
		});

		it("of 1,000 clients as soon as they are connected leave nothing (case 37a)", async () => {
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			for (let round = 0; round < 10; round += 1) {
				const batch = Array.from({ length: 100 }, () => lab.dial(port));
				await Promise.all(
					batch.map(
						(socket) =>
							new Promise<void>((resolve) => {
								socket.once("connect", () => socket.resetAndDestroy());
								socket.once("close", () => resolve());
							}),
					),
				);
			}
			await until(() => lab.engine.stats().tcpConnections === 0, "all to be over");
			expect(await lab.ask(port, "still there")).toBe("still there");
		});
	});

	describe("400 connections of random lengths, one in two cut at random", () => {
		it("lose nothing that they were told is whole, mix nothing up and leave nothing", async () => {
			const seed = Math.floor(Math.random() * 2 ** 31);
			const random = aGenerator(seed);
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const source = someBytes(2 * MEGABYTE);
			/** Sends a piece, perhaps cuts it off, and says what was wrong with the echo. */
			const one = async (): Promise<string | undefined> => {
				const start = Math.floor(random() * MEGABYTE);
				const piece = source.subarray(start, start + Math.floor(random() ** 4 * MEGABYTE));
				const client = await lab.connect(port);
				const cutAt = random() < 0.5 ? Math.floor(random() * piece.length) : undefined;
				client.end(piece);
				const echoed = await readUntil(client, cutAt, random() < 0.5);
				const isPrefix = echoed.equals(piece.subarray(0, echoed.length));
				const isWhole = cutAt !== undefined || echoed.length === piece.length;
				return isPrefix && isWhole
					? undefined
					: `${echoed.length} of ${piece.length}, cut ${cutAt}`;
			};
			const faults: (string | undefined)[] = [];
			for (let round = 0; round < 20; round += 1) {
				faults.push(...(await Promise.all(Array.from({ length: 20 }, one))));
			}
			expect(faults.filter(Boolean), `seed ${seed}`).toEqual([]);
			await lab.settled();
			expect(lab.records).toHaveLength(400);
		});
	});
}

/** Reads to the end, or until so much has come; then the client cuts, by a reset or by leaving. */
function readUntil(client: Socket, cutAt: number | undefined, byReset: boolean): Promise<Buffer> {
	return new Promise((resolve) => {
		const chunks: Buffer[] = [];
		let length = 0;
		client.on("data", (chunk: Buffer) => {
			chunks.push(chunk);
			length += chunk.length;
			if (cutAt === undefined || length < cutAt) return;
			if (byReset) client.resetAndDestroy();
			else client.destroy();
		});
		client.on("close", () => resolve(Buffer.concat(chunks)));
		client.resume();
	});
}

/** Numbers in [0, 1) that a seed gives again: a linear congruential generator, good enough here. */
function aGenerator(seed: number): () => number {
	let state = seed;
	return () => {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		return state / 2 ** 32;
	};
}
