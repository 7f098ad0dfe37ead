import { afterEach, describe, expect, test as it, vi } from "vitest";
import { HttpCrowd } from "../../../src/observe/http-crowd.ts";
import {
	ServiceHealthPort,
	type ServiceHealthPortOptions,
} from "../../../src/observe/service-health-port.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { silentLog } from "../../../src/shared/log.ts";
import { aLoopbackAddress } from "../../kit/loopback-addresses.ts";
import { aCapturedLog } from "./captured-log.ts";
import { aServerAt, ask, opened, send, served } from "./health-probe.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
	// oxlint-disable-next-line no-await-in-loop -- in order
	for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const PORT = 31_797;

const cart = { namespace: "shop", name: "cart", port: PORT, localEndpoints: 2 };

function aPort(options: Partial<ServiceHealthPortOptions> = {}): ServiceHealthPort {
	const port = new ServiceHealthPort(cart, {
		isHealthy: () => true,
		crowd: new HttpCrowd({ maxConnections: 16, onTooMany: () => {} }),
		log: silentLog,
		clock: systemClock,
		retry: { initialMs: 1_000, maxMs: 60_000 },
		turn: () => Promise.resolve(),
		onSockets: () => {},
		onError: () => {},
		...options,
	});
	cleanUps.push(() => port.retire());
	return port;
}

describe("ServiceHealthPort", () => {
	it("answers with the endpoints on this node, and whether the proxy is healthy", async () => {
		const here = aLoopbackAddress();
		let healthy = true;
		const port = aPort({ isHealthy: () => healthy });
		port.serve(cart, [here]);
		await served(here, PORT);
		const [head = "", body = ""] = (await ask(here, PORT)).split("\r\n\r\n");
		expect(head.split("\r\n")).toEqual(
			expect.arrayContaining([
				"HTTP/1.1 200 OK",
				"Connection: close",
				"Content-Type: application/json",
				"X-Content-Type-Options: nosniff",
				"X-Load-Balancing-Endpoint-Weight: 2",
			]),
		);
		expect(JSON.parse(body)).toEqual({
			service: { namespace: "shop", name: "cart" },
			localEndpoints: 2,
			serviceProxyHealthy: true,
		});
		healthy = false;
		expect(await ask(here, PORT)).toMatch(/^HTTP\/1\.1 503 .*"serviceProxyHealthy": false/s);
	});

	it.each([
		["any path", "GET /some/where?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n"],
		["a URL in whole", "GET http://lb.example/healthz HTTP/1.1\r\nHost: lb.example\r\n\r\n"],
		["a Host of somebody else", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"],
		["what proxies add", "GET / HTTP/1.1\r\nHost: x\r\nVia: 1.1 a\r\nX-Forwarded-For: b\r\n\r\n"],
		["a web page", "GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\n\r\n"],
		["HTTP/1.0 without Host", "GET /healthz HTTP/1.0\r\n\r\n"],
		["another method", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"],
		["an upgrade", "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"],
		["a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"],
		["a body that never comes", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"],
	])("is answered for %s, and the connection ends", async (_what, text) => {
		const here = aLoopbackAddress();
		const port = aPort();
		port.serve(cart, [here]);
		await served(here, PORT);
		expect(await send(here, PORT, text)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*"localEndpoints": 2/s);
	});

	it("answers HEAD without a body, with the length that it would have", async () => {
		const here = aLoopbackAddress();
		aPort().serve(cart, [here]);
		await served(here, PORT);
		const get = (await ask(here, PORT)).split("\r\n\r\n");
		const head = (await send(here, PORT, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")).split("\r\n\r\n");
		expect(head[1]).toBe("");
		const length = `Content-Length: ${get[1]?.length}`;
		expect([head[0], get[0]]).toEqual([
			expect.stringContaining(length),
			expect.stringContaining(length),
		]);
	});

	it("does not read an endless body, nor keep its connection open", async () => {
		const here = aLoopbackAddress();
		aPort().serve(cart, [here]);
		await served(here, PORT);
		const socket = await opened(here, PORT);
		cleanUps.push(() => socket.destroy());
		socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
		const chunk = Buffer.alloc(64 * 1024);
		let sent = 0;
		// What the kernel's buffers take is a few megabytes.
		while (!socket.destroyed && sent < 64 * 1024 * 1024) {
			sent += chunk.length;
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await new Promise((resolve) => socket.write(chunk, resolve));
		}
		expect(sent).toBeLessThan(64 * 1024 * 1024);
	});

	it("waits longer from try to try, and not at all once nobody wants it", async () => {
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		cleanUps.push(() => vi.useRealTimers());
		const taken = aLoopbackAddress();
		const blocker = await aServerAt(taken, PORT);
		cleanUps.push(() => blocker.close());
		const { log, lines } = aCapturedLog();
		const waits = vi.spyOn(globalThis, "setTimeout");
		const jitter = vi.spyOn(Math, "random").mockReturnValue(0);
		cleanUps.push(() => jitter.mockRestore());
		const port = aPort({ log, retry: { initialMs: 1_000, maxMs: 60_000 } });
		port.serve(cart, [taken]);
		const retries = (): unknown[] => waits.mock.calls.map(([, ms]) => ms);
		for (let turn = 1; turn <= 8; turn += 1) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await vi.waitUntil(() => retries().length === turn);
			vi.advanceTimersToNextTimer();
		}
		expect(retries()).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
		expect(lines).toHaveLength(1);
		await vi.waitUntil(() => vi.getTimerCount() === 1);
		await port.retire();
		expect(vi.getTimerCount()).toBe(0);
		expect(port.problem).toBeUndefined();
	});

	it("tells of a port that fails on many addresses in a few words", async () => {
		const { log, lines } = aCapturedLog();
		const port = aPort({ log });
		// Addresses for documentation, most likely on no interface.
		const addresses = [1, 2, 3, 4, 5].map((n) => `203.0.113.${n}`);
		port.serve(cart, addresses);
		await vi.waitFor(() => expect(lines).toHaveLength(1));
		expect(port.problem).toBe(
			`${[1, 2, 3]
				.map((n) => `listen EADDRNOTAVAIL: address not available 203.0.113.${n}:${PORT}`)
				.join("; ")}; and on 2 more addresses`,
		);
	});
});
