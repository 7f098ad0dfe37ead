import type { Socket } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { createBalancer } from "../../../../src/balancing/balancer.ts";
import type { DialResult } from "../../../../src/proxies/stream/dial.ts";
import { TcpConnection } from "../../../../src/proxies/stream/tcp-connection.ts";
import type { ConnectionRecord } from "../../../../src/services/connection-record.ts";
import { until } from "../../../conformance/tcp-lab.ts";
import { anAddress, anEndpointAt } from "../builders.ts";
import { aSocketPair } from "./sockets.ts";

const A = anEndpointAt("10.2.1.2", 8080, "pod-a");
const B = anEndpointAt("10.2.2.2", 8080, "pod-b");
const LOCAL: DialResult = { outcome: "local-error", errorCode: "EMFILE" };

/** A connection whose dials are answered by hand, and the clock that it looks at. */
class World {
	nowMs = 0;
	/** Looked at when the connection is made. */
	readonly drainRemovedMs = 60_000;
	readonly records: ConnectionRecord[] = [];
	readonly localErrors: (string | undefined)[] = [];
	readonly dials: { readonly endpoint: string; readonly timeoutMs: number }[] = [];
	dialed = 0;
	givenUp = 0;
	answer: (result: DialResult) => void = () => expect.unreachable("no dial");
	readonly balancer = createBalancer({ now: () => this.nowMs, random: () => 0 });
	readonly connection: TcpConnection;

	constructor(client: Socket, dialTimeoutsMs: readonly number[]) {
		this.balancer.update([A, B], { type: "None" });
		this.connection = new TcpConnection(
			"1",
			{
				socket: client,
				address: anAddress("10.1.0.2"),
				port: 41_234,
				servicePort: {
					name: "shop/cart:http",
					family: "ipv4",
					endpoints: [A, B],
					sessionAffinity: { type: "None" },
				},
				balancer: this.balancer,
			},
			{
				clock: { wallMs: () => 1_700_000_000_000, monotonicMs: () => this.nowMs },
				limits: {
					dialTimeoutsMs,
					halfCloseIdleMs: 1000,
					drainRemovedMs: this.drainRemovedMs,
				},
				dial: (endpoint, timeoutMs, onResult) => {
					this.dials.push({ endpoint: endpoint.key, timeoutMs });
					this.answer = onResult;
					return () => {
						this.givenUp += 1;
					};
				},
				onLocalError: (code) => this.localErrors.push(code),
				onDialed: () => {
					this.dialed += 1;
				},
				onEnd: (_connection, record) => this.records.push(record),
			},
		);
	}
}

async function aWorld(dialTimeoutsMs: readonly number[] = [250, 500, 1000]) {
	const client = await aSocketPair();
	return { world: new World(client.near, dialTimeoutsMs), client: client.far };
}

describe("TcpConnection while dialing", () => {
	// Only what the connection waits for; sockets need the real setImmediate.
	beforeEach(() => {
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
	});
	afterEach(() => {
		vi.useRealTimers();
	});

	it("pauses after a fault of this node, and does not hold it against the endpoint", async () => {
		const { world } = await aWorld();
		world.connection.start();
		world.answer(LOCAL);
		expect(world.localErrors).toEqual(["EMFILE"]);
		vi.advanceTimersByTime(249);
		expect(world.dials).toHaveLength(1);
		vi.advanceTimersByTime(1);
		expect(world.dials).toHaveLength(2);
		expect(world.balancer.stats().failing).toBe(0);
	});

	it("gives the pause up with the connection", async () => {
		const { world } = await aWorld();
		world.connection.start();
		world.answer(LOCAL);
		world.connection.end("stopped");
		vi.advanceTimersByTime(10_000);
		expect(world.dials).toHaveLength(1);
		expect(world.records).toMatchObject([{ end: "stopped", attemptCount: 1 }]);
	});

	it("is over once, whatever is said afterwards", async () => {
		const { world } = await aWorld();
		world.connection.start();
		world.connection.end("stopped");
		world.connection.end("client-gone");
		world.connection.refuse();
		expect(world.records).toMatchObject([
			{ end: "stopped", attempts: [{ endpoint: A.key, outcome: "abandoned" }] },
		]);
		expect([world.givenUp, world.dialed]).toEqual([1, 1]);
	});

	it("ends unread when it is refused before its turn", async () => {
		const { world } = await aWorld();
		world.connection.refuse();
		expect(world.records).toMatchObject([{ end: "overload", attemptCount: 0 }]);
		expect(world.dialed).toBe(0);
	});
});

async function aRelay() {
	const { world, client } = await aWorld();
	const endpoint = await aSocketPair();
	world.connection.start();
	world.answer({ outcome: "connected", socket: endpoint.near });
	return { world, client, endpoint: endpoint.far };
}

describe("TcpConnection whose endpoint was removed", () => {
	it("ends after the time that it is given, counted from when that was seen", async () => {
		const { world } = await aRelay();
		world.nowMs += 1_000_000;
		world.connection.sweep();
		world.balancer.update([B], { type: "None" });
		world.connection.sweep();
		world.nowMs += 59_999;
		world.connection.sweep();
		expect(world.records).toEqual([]);
		world.nowMs += 1;
		world.connection.sweep();
		expect(world.records).toMatchObject([{ end: "endpoint-removed", endpoint: A.key }]);
	});
});

describe("TcpConnection that is half-closed", () => {
	it("ends when nothing has moved for the limit, and not while something does (case 9b)", async () => {
		const { world, client, endpoint } = await aRelay();
		client.end();
		endpoint.resume();
		await until(() => world.connection.describe().state === "half-closed", "the client's FIN");
		world.connection.sweep();
		for (let sent = 1; sent <= 3; sent += 1) {
			world.nowMs += 999;
			endpoint.write("x");
			await until(() => world.connection.describe().bytesOut === sent, "the byte");
			world.connection.sweep();
		}
		world.nowMs += 999;
		world.connection.sweep();
		expect(world.records).toEqual([]);
		world.nowMs += 1;
		world.connection.sweep();
		expect(world.records).toMatchObject([
			{ end: "half-close-timeout", bytesOut: 3, endpoint: A.key, podName: "pod-a" },
		]);
	});

	it("counts from when it became so, not from when it was last busy", async () => {
		const { world, client, endpoint } = await aRelay();
		world.connection.sweep();
		world.nowMs += 1_000_000;
		world.connection.sweep();
		client.end();
		endpoint.resume();
		await until(() => world.connection.describe().state === "half-closed", "the client's FIN");
		world.connection.sweep();
		expect(world.records).toEqual([]);
		expect(world.connection.describe()).toMatchObject({ endpoint: A.key, protocol: "tcp" });
		world.connection.end("stopped");
		expect(world.records).toHaveLength(1);
	});
});
