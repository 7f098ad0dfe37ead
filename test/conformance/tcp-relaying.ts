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

	/** Waits until bytes were relayed and none has moved between two looks; the answer is their number. */
	async function stalled(): Promise<number> {
		let before = -1;
		await until(async () => {
			const [live] = await lab.engine.connections();
			const now = (live?.bytesIn ?? 0) + (live?.bytesOut ?? 0);
			const isStalled = now > 0 && now === before;
			before = now;
			return isStalled;
		}, "nothing to move any more");
		return before;
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
			// Else the kernel would make a few pieces of them.
			for (const socket of [client, server]) socket.setNoDelay(true);
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
				expect(await stalled()).toBeLessThan(TOO_MUCH);
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

		it.each(["client", "endpoint"] as const)(
			"both may end, the %s first, with 10 MB in flight each way to peers who read late",
			async (side) => {
				const { client, server } = await aRelay();
				const [first, second] = side === "client" ? [client, server] : [server, client];
				const [sent, answer] = [someBytes(10 * MEGABYTE), someBytes(10 * MEGABYTE).reverse()];
				first.end(sent);
				await stalled();
				second.end(answer);
				await stalled();
				const [atSecond, atFirst] = await Promise.all([readToEnd(second), readToEnd(first)]);
				expect(sha256(atSecond)).toBe(sha256(sent));
				expect(sha256(atFirst)).toBe(sha256(answer));
				expect(await lab.record()).toMatchObject({
					end: "closed",
					bytesIn: sent.length,
					bytesOut: answer.length,
				});
			},
		);

		it.each(["client", "endpoint"] as const)(
			"a %s that has ended gets 10 MB that were in flight, though it reads late",
			async (side) => {
				const { client, server } = await aRelay();
				const [first, second] = side === "client" ? [client, server] : [server, client];
				const sent = someBytes(10 * MEGABYTE);
				first.end();
				second.resume();
				second.end(sent);
				await until(
					async () => (await lab.engine.connections())[0]?.state === "half-closed",
					"an end",
				);
				expect(sha256(await readToEnd(first))).toBe(sha256(sent));
			},
		);

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
			await until(() => cutting.accepted + spare.accepted === 2, "both are relayed");
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
			await stalled();
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
}
