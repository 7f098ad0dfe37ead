import { once } from "node:events";
import type { Socket } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	type CreateEngine,
	countsOf,
	endOf,
	openSockets,
	readToEnd,
	someBytes,
	TcpLab,
	until,
} from "./tcp-lab.ts";

const ROUNDS = 10;
const AT_ONCE = 50;
const TIMES = ROUNDS * AT_ONCE;

/** Short, so that a round need not wait; the engine under test looks oftener than that. */
const HALF_CLOSE_IDLE_MS = 100;

/** More than one read of the relay. */
const CHUNK = someBytes(256 * 1024);

/** Nothing may stay behind a connection that ends out of order (kubernetes/kubernetes#18354). */
export function describeLeaks(createEngine: CreateEngine): void {
	let lab: TcpLab;
	beforeEach(() => {
		lab = new TcpLab(createEngine, {
			halfCloseIdleMs: HALF_CLOSE_IDLE_MS,
			dialTimeoutsMs: [60_000],
		});
	});
	afterEach(() => lab.close());

	/**
	 * Does it with 500 clients that have connected; the answer is what is left.
	 *
	 * @param accepted resolves once the engine has accepted every client of the round.
	 */
	async function leftBehind(
		port: number,
		act: (client: Socket, accepted: Promise<void>) => Promise<unknown>,
	): Promise<number> {
		const before = openSockets();
		for (let round = 0; round < ROUNDS; round += 1) {
			const clients = await Promise.all(Array.from({ length: AT_ONCE }, () => lab.connect(port)));
			const accepted = until(() => lab.starts === (round + 1) * AT_ONCE, "all to be accepted");
			await Promise.all(clients.map((client) => act(client, accepted)));
		}
		await until(() => lab.records.length === TIMES, "every connection to be over");
		await until(() => openSockets() <= before, "every socket to be closed");
		return lab.engine.stats().tcpConnections;
	}

	const ends = () => countsOf(lab.records.map(({ end }) => end));

	describe(`${TIMES} times`, () => {
		it("a client's reset in mid-stream (case 9a)", async () => {
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const left = await leftBehind(port, async (client) => {
				client.write(CHUNK);
				client.resume();
				await once(client, "data");
				client.resetAndDestroy();
			});
			expect([left, ends()]).toEqual([0, { "client-reset": TIMES }]);
		});

		it("an endpoint's FIN and a client that never closes: both are reset after the limit (case 9b, classic 9.1.25)", async () => {
			const atEndpoint: Promise<string>[] = [];
			const saysBye = await lab.endpoint((socket) => {
				socket.end("bye");
				atEndpoint.push(endOf(socket));
			});
			const port = await lab.serve({ endpoints: [saysBye.endpoint] });
			const left = await leftBehind(port, async (client) => {
				expect((await readToEnd(client)).toString()).toBe("bye");
				await until(async () => (await lab.engine.connections()).length === 0, "all to be over");
				// Nobody reads after the end, so only a write finds the reset.
				client.write("still there?");
				await once(client, "error");
			});
			expect([left, ends()]).toEqual([0, { "half-close-timeout": TIMES }]);
			expect(countsOf(await Promise.all(atEndpoint))).toEqual({ ECONNRESET: TIMES });
			expect(lab.records.every(({ bytesOut }) => bytesOut === 3)).toBe(true);
		});

		it("an endpoint's reset during an upload (case 9d)", async () => {
			const cuts = await lab.endpoint((socket) => {
				socket.once("data", () => socket.resetAndDestroy());
				socket.resume();
			});
			const port = await lab.serve({ endpoints: [cuts.endpoint] });
			const left = await leftBehind(port, async (client) => {
				client.write(CHUNK);
				expect(["ECONNRESET", "EPIPE"]).toContain(await endOf(client));
			});
			expect([left, ends()]).toEqual([0, { "endpoint-reset": TIMES }]);
		});

		it("a client's reset while its endpoint is dialed (case 9e, case 37b)", async () => {
			const silent = await lab.silentEndpoint();
			const port = await lab.serve({ endpoints: [silent.endpoint] });
			const left = await leftBehind(port, async (client, accepted) => {
				await accepted;
				client.resetAndDestroy();
				await until(async () => (await lab.engine.connections()).length === 0, "all to be over");
			});
			expect([left, ends()]).toEqual([0, { "client-gone": TIMES }]);
		});
	});
}
