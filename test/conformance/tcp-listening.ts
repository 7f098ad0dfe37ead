import { once } from "node:events";
import { createServer } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { toPort } from "../../src/services/port.ts";
import type { ServicePort } from "../../src/services/service-port.ts";
import { aServicePort } from "../unit/proxies/builders.ts";
import type { TestEndpoint } from "./tcp-endpoints.ts";
import {
	type CreateEngine,
	count,
	countsOf,
	endOf,
	type TcpConformanceOptions,
	TcpLab,
	until,
} from "./tcp-lab.ts";

/** Listeners and their ports, limits, and the end of it all. */
export function describeListening(createEngine: CreateEngine): void {
	let lab: TcpLab;
	let echo: TestEndpoint;
	async function start(options: Partial<TcpConformanceOptions> = {}): Promise<void> {
		lab = new TcpLab(createEngine, options);
		echo = await lab.endpoint((socket) => socket.pipe(socket));
	}
	/** The lab of the test is another one than that of beforeEach. */
	async function restart(options: Partial<TcpConformanceOptions>): Promise<void> {
		await lab.close();
		await start(options);
	}
	beforeEach(() => start());
	afterEach(() => lab.close());

	const serving = (name: string, parts: Partial<ServicePort> = {}) =>
		aServicePort({ name, endpoints: [echo.endpoint], ...parts });

	/** "refused", "reset" or what came back. */
	async function reach(port: number, host?: string): Promise<string> {
		return await lab
			.ask(port, "hello", host)
			.catch((error: NodeJS.ErrnoException) => error.code ?? String(error));
	}

	/**
	 * A port that nobody uses, below those that the kernel gives to clients; files that run beside this
	 * one look elsewhere.
	 */
	async function aFreePort(): Promise<number> {
		const first = 21_000 + Number(process.env["VITEST_POOL_ID"] ?? 0) * 100;
		for (let port = first; port < first + 100; port += 2) {
			const server = createServer();
			server.listen({ host: "0.0.0.0", port });
			const isFree = await once(server, "listening").then(
				() => true,
				() => false,
			);
			server.close();
			if (isFree) return port;
		}
		return expect.unreachable("no free port");
	}

	describe("ports", () => {
		it("every ServicePort has a listener and a port of its own", async () => {
			const wanted = [serving("a"), serving("b"), aServicePort({ name: "c" })];
			const { bindings, problems } = await lab.reconcile(...wanted);
			expect(problems).toEqual([]);
			expect(bindings.map(({ name, verdict }) => [name, verdict])).toEqual([
				["shop/a:http", "serve"],
				["shop/b:http", "serve"],
				["shop/c:http", "reject"],
			]);
			expect(new Set(bindings.map(({ proxyPort }) => proxyPort)).size).toBe(3);
			expect(bindings[0]).toMatchObject({
				key: wanted[0]?.key,
				protocol: "tcp",
				family: "ipv4",
				port: 80,
				virtualAddresses: wanted[0]?.virtualAddresses,
				listenAddress: undefined,
			});
			expect(lab.engine.stats().listeners).toBe(3);
		});

		it("a listener keeps its port when endpoints, affinity or names change", async () => {
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			expect(await lab.serve({ endpoints: [] })).toBe(port);
			expect(
				await lab.serve({
					endpoints: [echo.endpoint],
					sessionAffinity: { type: "ClientIP", timeoutMs: 1000 },
				}),
			).toBe(port);
			expect(await reach(port)).toBe("hello");
		});

		it("IPv6 is served on its own listener (classic 9.1.38)", async () => {
			const six = await lab.endpoint((socket) => socket.pipe(socket), { host: "::1" });
			const { bindings, problems } = await lab.reconcile(
				serving("cart"),
				aServicePort({ family: "ipv6", endpoints: [six.endpoint] }),
			);
			expect(problems).toEqual([]);
			const port = bindings.find(({ family }) => family === "ipv6")?.proxyPort ?? 0;
			expect(await reach(port, "::1")).toBe("hello");
			await lab.settled();
			expect(lab.records[0]).toMatchObject({ family: "ipv6", endpoint: six.endpoint.key });
			expect(lab.records[0]?.client).toMatch(/^\[::1\]:\d+$/);
			expect(await reach(port, "127.0.0.1")).toBe("ECONNREFUSED");
		});

		it("a taken port is that ServicePort's problem, until it is free (case 37d)", async () => {
			const port = await aFreePort();
			await restart({ portRange: { first: toPort(port), last: toPort(port) } });
			const other = await lab.endpoint(() => {}, { host: "0.0.0.0", port });
			const cart = serving("cart");
			const before = await lab.reconcile(cart);
			expect(before.bindings).toEqual([]);
			expect(before.problems).toMatchObject([{ key: cart.key, name: "shop/cart:http" }]);
			await other.close();
			const after = await lab.reconcile(cart);
			expect(after).toMatchObject({ bindings: [{ proxyPort: port }], problems: [] });
			expect(await reach(port)).toBe("hello");
		});

		it("a used-up range is a problem until a listener goes", async () => {
			const port = await aFreePort();
			await restart({ portRange: { first: toPort(port), last: toPort(port) } });
			const [a, b] = [serving("a"), serving("b")];
			const both = await lab.reconcile(a, b);
			expect(both.bindings.map(({ key }) => key)).toEqual([a.key]);
			expect(both.problems.map(({ key }) => key)).toEqual([b.key]);
			expect(both.problems[0]?.error.message).toContain(`no port of ${port}-${port} is free`);
			await lab.reconcile(b);
			lab.engine.retire(new Set());
			expect(await lab.reconcile(b)).toMatchObject({ bindings: [{ proxyPort: port }] });
		});

		it("a predecessor's port is used again, and nobody else gets it", async () => {
			const port = await aFreePort();
			const range = { first: toPort(port), last: toPort(port + 1) };
			const cart = aServicePort({ name: "cart" });
			const gone = aServicePort({ name: "gone" });
			await restart({
				portRange: range,
				preferredPorts: new Map([
					[cart.key, toPort(port + 1)],
					[gone.key, toPort(port)],
				]),
			});
			const first = await lab.reconcile(serving("new"), serving("cart"));
			expect(first.bindings).toMatchObject([{ name: "shop/cart:http", proxyPort: port + 1 }]);
			expect(first.problems).toMatchObject([{ name: "shop/new:http" }]);
			lab.engine.retire(new Set());
			const second = await lab.reconcile(serving("new"), serving("cart"));
			expect(second.bindings.map(({ proxyPort }) => proxyPort)).toEqual([port, port + 1]);
		});
	});

	describe("retiring", () => {
		it("a listener stays until nothing points at it, and its relays until they end (case 25c, classic 9.1.6, 9.1.8)", async () => {
			const cart = serving("cart");
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const client = await lab.connect(port);
			await until(async () => (await lab.engine.connections())[0]?.state === "open", "the relay");
			expect(await lab.reconcile()).toEqual({ bindings: [], problems: [] });
			expect(await reach(port)).toBe("hello");
			lab.engine.retire(new Set([cart.key]));
			expect(await reach(port)).toBe("hello");
			lab.engine.retire(new Set());
			expect(await reach(port)).toBe("ECONNREFUSED");
			client.end("still here");
			expect(await lab.engine.drain(10_000)).toBe(0);
			expect(lab.records.at(-1)).toMatchObject({ end: "closed", bytesOut: 10 });
		});

		it("a ServicePort that comes back in time keeps its listener", async () => {
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			await lab.reconcile();
			expect(await lab.serve({ endpoints: [echo.endpoint] })).toBe(port);
			lab.engine.retire(new Set());
			expect(await reach(port)).toBe("hello");
		});
	});

	describe("half-closed connections", () => {
		it("that are silent too long are reset; idle whole ones live on (case 9b, case 9f, classic 9.1.25)", async () => {
			await restart({ halfCloseIdleMs: 200 });
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const idle = await lab.connect(port);
			await until(async () => (await lab.engine.connections())[0]?.state === "open", "the relay");
			const held = await lab.endpoint((socket) => socket.end("bye"));
			await lab.serve({ endpoints: [held.endpoint] });
			const half = await lab.connect(port);
			expect(await endOf(half)).toBe("end");
			expect(await lab.record()).toMatchObject({ end: "half-close-timeout", bytesOut: 3 });
			// A socket that has seen the end sees a reset only when it sends.
			const reset = once(half, "error");
			half.write("too late");
			expect(await reset).toMatchObject([{ syscall: "write" }]);
			idle.end("alive");
			expect(await endOf(idle)).toBe("end");
			await until(() => lab.records.length === 2, "the idle one's record");
			expect(lab.records[1]).toMatchObject({ end: "closed", bytesOut: 5 });
		});
	});

	describe("file descriptors", () => {
		/** Of 80, 14 are for relaying: the listener and six connections. Two may wait beside them. */
		const FEW = { descriptorLimit: 80 };

		const echoes = async (socket: Awaited<ReturnType<TcpLab["connect"]>>) => {
			socket.end("hello");
			return await endOf(socket);
		};

		it("when they run out, new connections wait in order; beyond that they are refused (classic 9.1.35)", async () => {
			await restart(FEW);
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const relayed = [];
			for (let index = 0; index < 6; index += 1) relayed.push(await lab.connect(port));
			const open = async () =>
				count(
					(await lab.engine.connections()).map(({ state }) => state),
					"open",
				);
			await until(async () => (await open()) === 6, "six relays");
			expect(lab.engine.stats()).toMatchObject({ acceptPaused: false, overloadRefusals: 0 });

			const waiting = [await lab.connect(port), await lab.connect(port)];
			await until(() => lab.engine.stats().waitingConnections === 2, "both to wait");
			expect(lab.engine.stats().acceptPaused).toBe(true);
			expect(await endOf(lab.dial(port))).toBe("ECONNRESET");
			expect(lab.engine.stats()).toMatchObject({
				tcpConnections: 8,
				waitingConnections: 2,
				overloadRefusals: 1,
			});
			await until(() => lab.records.length > 0, "the record of the one that was refused");
			expect(lab.records).toMatchObject([{ end: "overload", attemptCount: 0 }]);

			for (const socket of [...relayed, ...waiting]) expect(await echoes(socket)).toBe("end");
			await lab.settled();
			expect(countsOf(lab.records.map(({ end }) => end))).toEqual({ overload: 1, closed: 8 });
			expect(lab.engine.stats()).toMatchObject({ acceptPaused: false, waitingConnections: 0 });
			const said = () => lab.log.lines.filter(({ message }) => message.startsWith("accepting"));
			await until(() => said().length === 2, "the log to say that it is over");
			expect(said().map(({ level }) => level)).toEqual(["warn", "info"]);
		});

		it("few of them are told at the start, with how many connections they are for", async () => {
			const warnings = () => lab.log.lines.filter(({ message }) => message.startsWith("few file"));
			await restart(FEW);
			expect(warnings()).toMatchObject([{ level: "warn", fields: { connections: 7 } }]);
			await restart({ descriptorLimit: 20_000 });
			expect(warnings()).toEqual([]);
		});

		it("a client that waits and one that is relayed may go at any time", async () => {
			await restart(FEW);
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			for (let round = 0; round < 5; round += 1) {
				const clients = [];
				for (let index = 0; index < 8; index += 1) clients.push(await lab.connect(port));
				// Else those that are still to be accepted would be counted neither now nor as gone.
				await until(() => {
					const { tcpConnections, waitingConnections } = lab.engine.stats();
					return tcpConnections === 8 && waitingConnections === 2;
				}, "all to be accepted");
				for (const client of clients.toReversed()) client.resetAndDestroy();
				await until(() => lab.engine.stats().tcpConnections === 0, "all to be gone");
			}
			expect(await reach(port)).toBe("hello");
		});
	});

	describe("the end", () => {
		it("drain waits for connections, and says how many are left when it has waited enough", async () => {
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const client = await lab.connect(port);
			await until(async () => (await lab.engine.connections()).length === 1, "the relay");
			expect(await lab.engine.drain(10)).toBe(1);
			const drained = lab.engine.drain(60_000);
			client.end();
			client.resume();
			expect(await drained).toBe(0);
			expect(await lab.engine.drain(60_000)).toBe(0);
		});

		it("close resets what is left, frees every port and may be called again", async () => {
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const silent = await lab.silentEndpoint();
			const { bindings } = await lab.reconcile(
				serving("cart"),
				aServicePort({ name: "slow", endpoints: [silent.endpoint] }),
			);
			const open = await lab.connect(port);
			const dialing = await lab.connect(bindings[1]?.proxyPort ?? 0);
			await until(async () => (await lab.engine.connections()).length === 2, "both");
			// Both may have begun in the same millisecond: either may come first.
			await until(async () => {
				const live = await lab.engine.connections();
				return live.some(({ state }) => state === "open");
			}, "the relay");
			const ends = Promise.all([endOf(open), endOf(dialing)]);
			await lab.engine.close();
			await lab.engine.close();
			expect(await ends).toEqual(["ECONNRESET", "ECONNRESET"]);
			expect(lab.records.map(({ end }) => end)).toEqual(["stopped", "stopped"]);
			expect(await reach(port)).toBe("ECONNREFUSED");
			expect(await lab.engine.connections()).toEqual([]);
		});
	});
}
