import type { Socket } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { aServicePort } from "../unit/proxies/builders.ts";
import {
	type CreateEngine,
	countsOf,
	endOf,
	readToEnd,
	sha256,
	someBytes,
	TcpLab,
	until,
} from "./tcp-lab.ts";

const MEGABYTE = 1024 * 1024;

/** More than the kernel's buffers of two connections can take: some of it waits in the engine. */
const TOO_MUCH = someBytes(64 * MEGABYTE);

/** What a peer has done by the time that one of the two resets. Nobody reads meanwhile. */
const DEEDS = {
	"says nothing": () => {},
	"has bytes in flight": (socket: Socket) => void socket.write(TOO_MUCH),
	"has ended": (socket: Socket) => void socket.end(),
	"has ended with bytes in flight": (socket: Socket) => void socket.end(TOO_MUCH),
} as const;
type Deed = keyof typeof DEEDS;

type Side = "client" | "endpoint";

interface Relay {
	readonly client: Socket;
	readonly endpoint: Socket;
}

/** Peers that misbehave, and that nobody else is any the worse for it. */
export function describeFaults(createEngine: CreateEngine): void {
	let lab: TcpLab;
	beforeEach(() => {
		lab = new TcpLab(createEngine);
	});
	afterEach(() => lab.close());

	/** A port whose connections are opened one by one, both peers in hand. Nothing is read. */
	async function serveRelays(): Promise<{
		readonly echoPort: number;
		readonly open: () => Promise<Relay>;
	}> {
		const accepted: Socket[] = [];
		const held = await lab.endpoint((socket) => accepted.push(socket));
		const echo = await lab.endpoint((socket) => socket.pipe(socket));
		const { bindings } = await lab.reconcile(
			aServicePort({ name: "held", endpoints: [held.endpoint] }),
			aServicePort({ name: "echo", endpoints: [echo.endpoint] }),
		);
		const [port = 0, echoPort = 0] = bindings.map(({ proxyPort }) => proxyPort);
		const open = async (): Promise<Relay> => {
			const client = await lab.connect(port);
			await until(() => accepted.length > 0, "the endpoint to accept");
			const endpoint = accepted.pop() ?? expect.unreachable();
			return { client, endpoint };
		};
		return { echoPort, open };
	}

	/** Waits until so many relays are open, and no byte has moved between two looks. */
	async function stalled(count: number): Promise<void> {
		let before = "";
		await until(async () => {
			const live = await lab.engine.connections();
			const open = live.filter(({ state }) => state !== "dialing");
			const now = open.map(({ bytesIn, bytesOut }) => `${bytesIn} ${bytesOut}`).join();
			const isStalled = open.length === count && now === before;
			before = now;
			return isStalled;
		}, "nothing to move any more");
	}

	/** What a relay does that has had nothing to do with all that. */
	async function isWhole({ client, endpoint }: Relay): Promise<void> {
		const up = someBytes(10 * MEGABYTE).reverse();
		const down = someBytes(10 * MEGABYTE).subarray(1);
		client.end(up);
		endpoint.end(down);
		const [atEndpoint, atClient] = await Promise.all([readToEnd(endpoint), readToEnd(client)]);
		expect(sha256(atEndpoint)).toBe(sha256(up));
		expect(sha256(atClient)).toBe(sha256(down));
	}

	describe("a reset", () => {
		const pairs = Object.keys(DEEDS).flatMap((own) =>
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- keys of DEEDS
			Object.keys(DEEDS).map((others) => ({ own, others }) as { own: Deed; others: Deed }),
		);
		/** Where both have ended, no connection is left; or see below. */
		const live = pairs.filter(
			({ own, others }) => !own.startsWith("has ended") || others !== "has ended",
		);

		it.each(["client", "endpoint"] as const)(
			"of the %s is told to the other, whatever both have ended or have in flight, and leaves nothing",
			async (side) => {
				const { open } = await serveRelays();
				const opened: { own: Deed; gone: Socket; other: Socket }[] = [];
				for (const { own, others } of live) {
					const [gone, other] = inOrder(await open(), side);
					DEEDS[own](gone);
					DEEDS[others](other);
					opened.push({ own, gone, other });
				}
				await stalled(live.length);
				resetAll(opened.map(({ gone }) => gone));
				// After an end nobody is told of a reset who does not write.
				const told = opened.filter(({ own }) => !own.startsWith("has ended"));
				const ends = told.map(({ other }) => endOf(other));
				await lab.settled();
				expect(countsOf(lab.records.map(({ end }) => end))).toEqual({
					[`${side}-reset`]: live.length,
				});
				for (const end of await Promise.all(ends)) expect(["ECONNRESET", "EPIPE"]).toContain(end);
				await isWhole(await open());
			},
		);

		it("of one that has ended with bytes in flight, to one that has ended, is found in time", async () => {
			await lab.close();
			lab = new TcpLab(createEngine, { halfCloseIdleMs: 500 });
			const { open } = await serveRelays();
			for (const side of ["client", "endpoint"] as const) {
				const [gone, other] = inOrder(await open(), side);
				gone.end(TOO_MUCH);
				other.end();
				await stalled(1);
				gone.resetAndDestroy();
				await lab.settled();
				// An engine that neither reads nor writes a socket may not be told.
				expect([`${side}-reset`, "half-close-timeout"]).toContain(lab.records.at(-1)?.end);
			}
		});

		it("of a client while its endpoint is dialed is the end of that, whatever it has ended or has in flight", async () => {
			await lab.close();
			lab = new TcpLab(createEngine, { dialTimeoutsMs: [1_000] });
			const silent = await lab.silentEndpoint();
			const port = await lab.serve({ endpoints: [silent.endpoint] });
			const clients = await Promise.all(Array.from({ length: 5 }, () => lab.connect(port)));
			const [, sends, floods, ends, floodsAndEnds] = clients;
			sends?.write("hello");
			floods?.write(TOO_MUCH);
			ends?.end();
			floodsAndEnds?.end(TOO_MUCH);
			await until(
				async () => (await lab.engine.connections()).length === clients.length,
				"all to be dialed for",
			);
			resetAll(clients);
			await lab.settled();
			const found = countsOf(lab.records.map(({ end }) => end));
			// An engine that reads no more, after an end or with enough in hand, may not be told of the reset: then
			// the dial is tried to its end.
			expect(found["client-gone"]).toBeGreaterThanOrEqual(2);
			expect((found["client-gone"] ?? 0) + (found["unreachable"] ?? 0)).toBe(clients.length);
		});

		it("of an endpoint as soon as it has accepted is one to each client", async () => {
			const cuts = await lab.endpoint((socket) => socket.resetAndDestroy());
			const port = await lab.serve({ endpoints: [cuts.endpoint] });
			const ends = await Promise.all(Array.from({ length: 100 }, () => endOf(lab.dial(port))));
			expect(countsOf(ends)).toEqual({ ECONNRESET: 100 });
			await lab.settled();
			// It may be known before the dial is: then it has failed, and others follow.
			const known = countsOf(lab.records.map(({ end }) => end));
			expect((known["endpoint-reset"] ?? 0) + (known["unreachable"] ?? 0)).toBe(100);
		});
	});

	describe.each(["client", "endpoint"] as const)("a %s that never reads", (side) => {
		const other = side === "client" ? "endpoint" : "client";

		it("costs little memory, holds up nobody else, and is over when one of the two goes", async () => {
			const { open, echoPort } = await serveRelays();
			const relays: Relay[] = [];
			while (relays.length < 6) relays.push(await open());
			const readers = relays.map((relay) => relay[side]);
			const senders = relays.map((relay) => relay[other]);
			const bytesBefore = process.memoryUsage.rss();
			for (const sender of senders) sender.write(TOO_MUCH);
			await stalled(senders.length);
			// Of 384 MB that were offered.
			expect(process.memoryUsage.rss() - bytesBefore).toBeLessThan(64 * MEGABYTE);
			expect(await lab.ask(echoPort, "others")).toBe("others");
			await isWhole(await open());

			resetAll([...senders.slice(0, 2), ...readers.slice(2, 4)]);
			// With unread bytes its kernel says the same of a close.
			for (const reader of readers.slice(4)) reader.destroy();
			await lab.settled();
			const ends = lab.records.map(({ end }) => end);
			expect(countsOf(ends)).toEqual({ closed: 2, [`${other}-reset`]: 2, [`${side}-reset`]: 4 });
		});
	});
}

/** The peer of that side, and then the other one. */
function inOrder({ client, endpoint }: Relay, side: Side): readonly [Socket, Socket] {
	return side === "client" ? [client, endpoint] : [endpoint, client];
}

function resetAll(sockets: readonly Socket[]): void {
	for (const socket of sockets) socket.resetAndDestroy();
}
