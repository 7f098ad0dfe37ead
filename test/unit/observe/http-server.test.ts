import {
	type ClientRequest,
	createServer,
	type IncomingHttpHeaders,
	type OutgoingHttpHeaders,
	request,
	type Server,
} from "node:http";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { afterEach, describe, expect, test as it, vi } from "vitest";
import { ConnectionFeed } from "../../../src/observe/connection-feed.ts";
import { ConnectionLog } from "../../../src/observe/connection-log.ts";
import type { HealthFacts } from "../../../src/observe/health.ts";
import { type HttpServersOptions, startHttpServers } from "../../../src/observe/http-server.ts";
import type { ConnectionReport, StatusReport } from "../../../src/services/status.ts";
import { silentLog } from "../../../src/shared/log.ts";
import { aRecord, aStart } from "./a-record.ts";
import { aCapturedLog } from "./captured-log.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
	// oxlint-disable-next-line no-await-in-loop -- in order
	for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const wellFacts: HealthFacts = {
	syncPeriodMs: 30_000,
	families: [
		{ family: "ipv4", pendingMs: undefined, syncedAgoMs: 9_000 },
		{ family: "ipv6", pendingMs: undefined, syncedAgoMs: 9_000 },
	],
	runners: [],
	firstSyncDone: true,
	stopping: false,
	sources: [
		{ name: "kubernetes https://192.0.2.1", synced: true, ageMs: 3_600_400, failing: true },
	],
};

const status: StatusReport = {
	version: "1.2.3",
	pid: 7,
	nodeName: "node1",
	startedAtMs: 1,
	ready: true,
	sources: [],
	rules: { backend: undefined, lastVerifiedAtMs: undefined, problem: undefined },
	relay: undefined,
	lastSyncAtMs: undefined,
	logConnections: "off",
	servicePorts: [],
};

function aConnection(overrides: Partial<ConnectionReport> = {}): ConnectionReport {
	return {
		id: "1",
		protocol: "tcp",
		service: "shop/cart:http",
		client: "10.1.0.2:41234",
		endpoint: "10.2.1.2:8080",
		startedAtMs: 1,
		bytesIn: 2,
		bytesOut: 3,
		state: "open",
		...overrides,
	};
}

async function started(overrides: Partial<HttpServersOptions> = {}) {
	const feed = new ConnectionFeed();
	const connectionLog = new ConnectionLog({ log: silentLog, mode: "off" });
	const servers = await startHttpServers({
		healthAddress: { address: "127.0.0.1", port: 0 },
		metricsAddress: { address: "127.0.0.1", port: 0 },
		bindAddressHardFail: false,
		maxConnections: 128,
		health: () => wellFacts,
		clock: { wallMs: () => Date.UTC(2026, 0, 2), monotonicMs: () => 0 },
		metrics: { contentType: "text/plain; version=0.0.4", render: () => Promise.resolve("a 1\n") },
		status: () => Promise.resolve(status),
		connections: () => Promise.resolve([]),
		recent: () => Promise.resolve(feed.recent()),
		feed,
		connectionLog,
		log: silentLog,
		...overrides,
	});
	cleanUps.push(() => servers.close());
	const health = portOf(servers.healthBoundTo());
	const metrics = portOf(servers.metricsBoundTo());
	return { servers, feed, connectionLog, health, metrics };
}

function portOf(address: string | undefined): number {
	return Number(address?.split(":").at(-1));
}

/** An address of this machine that is not loopback, where it has one. */
const ownAddress = Object.values(networkInterfaces())
	.flat()
	.find((address) => address?.internal === false && address.family === "IPv4")?.address;

interface Answer {
	readonly status: number | undefined;
	readonly headers: IncomingHttpHeaders;
	readonly text: string;
}

async function ask(
	port: number,
	path: string,
	options: {
		readonly method?: string;
		readonly headers?: OutgoingHttpHeaders;
		readonly body?: string;
		readonly host?: string;
	} = {},
): Promise<Answer> {
	const { method = "GET", headers = {}, body, host = "127.0.0.1" } = options;
	return await new Promise((resolve, reject) => {
		const asked = request({ host, port, path, method, headers, agent: false }, (response) => {
			let text = "";
			response.setEncoding("utf8");
			response.on("data", (chunk: string) => {
				text += chunk;
			});
			response.on("error", reject);
			response.on("end", () =>
				resolve({ status: response.statusCode, headers: response.headers, text }),
			);
		});
		asked.on("error", reject);
		asked.end(body);
	});
}

/** Sends a request as it is; the whole answer. */
async function send(port: number, text: string): Promise<string> {
	const socket = connect(port, "127.0.0.1").setEncoding("utf8");
	socket.end(text);
	return (await socket.toArray()).join("");
}

/** An endless answer: its lines so far. */
async function watch(port: number, path: string) {
	const lines: string[] = [];
	let rest = "";
	let ended = false;
	const asked = await new Promise<ClientRequest>((resolve, reject) => {
		const making = request({ host: "127.0.0.1", port, path, agent: false }, (response) => {
			response.setEncoding("utf8");
			response.on("data", (chunk: string) => {
				const parts = (rest + chunk).split("\n");
				rest = parts.pop() ?? "";
				lines.push(...parts);
			});
			response.on("error", () => {});
			// Not when it is cut off.
			response.on("end", () => {
				ended = true;
			});
			resolve(making);
		});
		making.on("error", reject).end();
	});
	cleanUps.push(() => asked.destroy());
	return {
		asked,
		parsed: (): unknown[] => lines.map((line) => JSON.parse(line)),
		ended: () => ended,
	};
}

describe("health paths", () => {
	it("answer in kube-proxy's format, with the age of each source (case 3g, classic 9.8.12)", async () => {
		const { health } = await started();
		const answer = await ask(health, "/healthz");
		expect(answer.status).toBe(200);
		expect(answer.headers).toMatchObject({
			"content-type": "application/json",
			"x-content-type-options": "nosniff",
		});
		const now = "2026-01-02T00:00:00.000Z";
		expect(JSON.parse(answer.text)).toEqual({
			lastUpdated: now,
			currentTime: now,
			nodeEligible: true,
			healthy: true,
			status: {
				IPv4: { lastUpdated: now, healthy: true },
				IPv6: { lastUpdated: now, healthy: true },
			},
			ready: true,
			reasons: [],
			sources: [
				{ name: "kubernetes https://192.0.2.1", synced: true, ageSeconds: 3_600, failing: true },
			],
		});
	});

	it("answer 503 with the reason and the time of the last sync when changes are late", async () => {
		const answered: [string, number][] = [];
		const { health } = await started({
			health: () => ({
				...wellFacts,
				families: [{ family: "ipv4", pendingMs: 61_000, syncedAgoMs: 90_000 }],
			}),
			onHealthAnswer: (path, code) => answered.push([path, code]),
		});
		for (const path of ["/healthz", "/livez", "/readyz"]) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			const answer = await ask(health, path);
			expect(answer.status).toBe(503);
			const body: unknown = JSON.parse(answer.text);
			expect(body).toMatchObject({
				healthy: false,
				lastUpdated: "2026-01-01T23:58:30.000Z",
				status: { IPv4: { healthy: false, lastUpdated: "2026-01-01T23:58:30.000Z" } },
				reasons: ["ipv4 rules are late by 61 s"],
			});
			expect(Object.hasOwn(Object(body), "nodeEligible")).toBe(path === "/healthz");
		}
		expect(answered).toEqual([
			["/healthz", 503],
			["/livez", 503],
			["/readyz", 503],
		]);
	});

	it("tell ready from healthy", async () => {
		const { health } = await started({ health: () => ({ ...wellFacts, stopping: true }) });
		const codes = await Promise.all(
			["/healthz", "/livez", "/readyz"].map(async (path) => (await ask(health, path)).status),
		);
		expect(codes).toEqual([200, 200, 503]);
	});

	it("are the only ones on the health address", async () => {
		const { health } = await started();
		for (const path of ["/", "/metrics", "/status", "/connections", "/connections-log"]) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			expect((await ask(health, path)).status).toBe(404);
		}
	});

	it("answer HEAD without a body, and no other method", async () => {
		const { health } = await started();
		expect(await ask(health, "/readyz", { method: "HEAD" })).toMatchObject({
			status: 200,
			text: "",
		});
		const refused = await ask(health, "/readyz", { method: "POST", body: "x" });
		expect(refused.status).toBe(405);
		expect(refused.headers.allow).toBe("GET, HEAD");
		expect((await ask(health, "/readyz", { method: "DELETE" })).status).toBe(405);
	});
});

describe("metrics address", () => {
	it("serves kube-proxy's paths", async () => {
		const { metrics } = await started();
		expect(await ask(metrics, "/metrics")).toMatchObject({
			status: 200,
			text: "a 1\n",
			headers: { "content-type": "text/plain; version=0.0.4" },
		});
		expect(await ask(metrics, "/healthz")).toMatchObject({ status: 200, text: "ok" });
		expect(await ask(metrics, "/proxyMode")).toMatchObject({ status: 200, text: "userspace" });
	});

	it("answers 500 and goes on when a provider fails, and says so once", async () => {
		const { log, lines } = aCapturedLog();
		const { metrics } = await started({
			log,
			metrics: { contentType: "text/plain", render: () => Promise.reject(new Error("secret")) },
		});
		const answers = [await ask(metrics, "/metrics"), await ask(metrics, "/metrics")];
		expect(answers.map(({ status: code, text }) => [code, text])).toEqual([
			[500, "internal error\n"],
			[500, "internal error\n"],
		]);
		expect(lines.filter(({ level }) => level === "warn")).toHaveLength(1);
		expect((await ask(metrics, "/proxyMode")).status).toBe(200);
	});
});

describe("status paths", () => {
	it("answer the status as JSON", async () => {
		const { metrics } = await started();
		const answer = await ask(metrics, "/status");
		expect(answer.status).toBe(200);
		expect(JSON.parse(answer.text)).toMatchObject({ version: "1.2.3", nodeName: "node1" });
	});

	it("list living connections, filtered by Service and client", async () => {
		const { metrics } = await started({
			connections: () =>
				Promise.resolve([
					aConnection({ id: "1" }),
					aConnection({ id: "2", client: "10.1.0.3:1" }),
					aConnection({ id: "3", service: "shop/dns" }),
					aConnection({ id: "4", client: "[fd10::2]:1" }),
				]),
		});
		const ids = async (query: string): Promise<unknown> => {
			const { connections, total } = JSON.parse((await ask(metrics, `/connections${query}`)).text);
			expect(connections).toHaveLength(total);
			return connections.map(({ id }: { id: string }) => id);
		};
		expect(await ids("")).toEqual(["1", "2", "3", "4"]);
		expect(await ids("?service=shop/cart")).toEqual(["1", "2", "4"]);
		expect(await ids("?client=10.1.0.2")).toEqual(["1", "3"]);
		expect(await ids("?client=FD10:0::2")).toEqual(["4"]);
		expect(await ids("?service=shop/cart&client=10.1.0.3")).toEqual(["2"]);
		expect((await ask(metrics, "/connections?client=nobody")).status).toBe(400);
	});

	it("cut a list that is too long, keep the newest, and tell how many there are", async () => {
		const { metrics } = await started({
			connections: () =>
				Promise.resolve(
					Array.from({ length: 10_003 }, (_, index) => aConnection({ id: String(index) })),
				),
		});
		const { connections, total } = JSON.parse((await ask(metrics, "/connections")).text);
		expect([connections.length, total, connections[0].id]).toEqual([10_000, 10_003, "3"]);
	});

	it("list the connections that ended last", async () => {
		const { metrics, feed } = await started();
		feed.ended(aRecord({ id: "a" }));
		feed.ended(aRecord({ id: "b", service: "shop/dns" }));
		const answer = await ask(metrics, "/connections/recent?service=shop/dns");
		expect(JSON.parse(answer.text)).toMatchObject({ records: [{ id: "b" }] });
	});

	it("stream what happens, filtered, until the watcher leaves", async () => {
		const { metrics, feed } = await started();
		const watcher = await watch(metrics, "/connections/watch?service=shop/cart");
		feed.started(aStart());
		feed.ended(aRecord({ id: "x", service: "shop/dns" }));
		feed.ended(aRecord({ id: "y" }));
		await vi.waitFor(() => expect(watcher.parsed()).toHaveLength(2));
		expect(watcher.parsed()).toMatchObject([
			{ event: "started", service: "shop/cart:http" },
			{ event: "ended", record: { id: "y" } },
		]);
		watcher.asked.destroy();
		await vi.waitFor(() => expect(freePlaces(feed)).toBe(16));
	});

	it("leave out lines for a watcher that does not read, and tell it how many", async () => {
		const { metrics, feed } = await started();
		const socket = connect(metrics, "127.0.0.1");
		cleanUps.push(() => socket.destroy());
		socket.write("GET /connections/watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
		await new Promise((resolve) => socket.once("data", resolve));
		socket.pause();
		// Far more than the kernel's buffers and ours hold together.
		for (let round = 0; round < 200; round += 1) {
			for (let index = 0; index < 200; index += 1) feed.ended(aRecord());
			// oxlint-disable-next-line no-await-in-loop -- the server needs its turn to send
			await new Promise((resolve) => setImmediate(resolve));
		}
		let received = "";
		socket.setEncoding("utf8").on("data", (chunk: string) => {
			received += chunk;
		});
		socket.resume();
		await vi.waitFor(() => expect(received).toContain('{"event":"dropped","count":'), 10_000);
		const told = [...received.matchAll(/"event":"dropped","count":(\d+)/g)].map(([, n]) =>
			Number(n),
		);
		const seen = received.split('"event":"ended"').length - 1;
		expect(seen + told.reduce((sum, count) => sum + count, 0)).toBe(40_000);
	});

	it("refuse more watchers than there is room for", async () => {
		const { metrics, feed } = await started();
		while (feed.watch(() => {}) !== undefined);
		expect((await ask(metrics, "/connections/watch")).status).toBe(503);
	});

	it("read and set the connection log's mode", async () => {
		const { metrics, connectionLog } = await started();
		const json = { "Content-Type": "application/json; charset=utf-8" };
		const put = async (body: string, headers: OutgoingHttpHeaders = json): Promise<Answer> =>
			await ask(metrics, "/connections-log", { method: "PUT", headers, body });
		expect((await ask(metrics, "/connections-log")).text).toBe('{"mode":"off"}\n');
		expect(await put('{"mode":"all"}')).toMatchObject({ status: 200, text: '{"mode":"all"}\n' });
		expect(connectionLog.mode).toBe("all");
		for (const wrong of ['{"mode":"everything"}', '{"mode":1}', "[]", "null", "{", ""]) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			expect((await put(wrong)).status).toBe(400);
		}
		expect((await put('{"mode":"off"}', {})).status).toBe(415);
		expect((await put('{"mode":"off"}', { "Content-Type": "text/plain" })).status).toBe(415);
		expect((await put(`{"mode":"off"}${" ".repeat(2_000)}`)).status).toBe(413);
		expect(connectionLog.mode).toBe("all");
	});

	const localPaths = [
		"/status",
		"/connections",
		"/connections/recent",
		"/connections/watch",
		"/connections-log",
	];

	it.each(localPaths)("%s is not for web pages or other people's names", async (path) => {
		const { metrics } = await started();
		const refusals = [
			{ Host: "evil.example" },
			{ Origin: "http://evil.example" },
			{ "X-Forwarded-For": "10.1.0.2" },
		];
		for (const headers of refusals) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			expect((await ask(metrics, path, { headers })).status).toBe(403);
		}
	});

	it.each([
		["127.0.0.1", "evil.example"],
		["evil.example", "127.0.0.1"],
		["127.0.0.1", "127.0.0.1"],
	])("answer 400 to the Host headers %s and %s: nobody knows which counts", async (one, two) => {
		const { metrics } = await started();
		for (const path of [...localPaths, "/metrics"]) {
			const text = `GET ${path} HTTP/1.1\r\nHost: ${one}\r\nhost: ${two}\r\nConnection: close\r\n\r\n`;
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			expect(await send(metrics, text)).toMatch(/^HTTP\/1\.1 400 /);
		}
	});

	it.skipIf(ownAddress === undefined)(
		"are not for clients that come over the network, on whatever address",
		async () => {
			const { metrics, connectionLog } = await started({
				metricsAddress: { address: "0.0.0.0", port: 0 },
			});
			const host = ownAddress ?? "";
			const headers = { Host: "localhost", "Content-Type": "application/json" };
			for (const path of localPaths) {
				// oxlint-disable-next-line no-await-in-loop -- one after the other
				expect((await ask(metrics, path, { host, headers })).status).toBe(403);
			}
			const body = '{"mode":"all"}';
			await ask(metrics, "/connections-log", { host, headers, method: "PUT", body });
			expect(connectionLog.mode).toBe("off");
			expect((await ask(metrics, "/metrics", { host })).status).toBe(200);
		},
	);
});

/** How many more may watch. */
function freePlaces(feed: ConnectionFeed): number {
	const leaves: (() => void)[] = [];
	for (let leave = feed.watch(() => {}); leave !== undefined; leave = feed.watch(() => {})) {
		leaves.push(leave);
	}
	for (const leave of leaves) leave();
	return leaves.length;
}

describe("startHttpServers()", () => {
	async function aTakenPort(): Promise<{ readonly port: number; readonly server: Server }> {
		const server = createServer();
		server.on("error", () => {});
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		cleanUps.push(() => server.close());
		const bound = server.address();
		return { port: typeof bound === "object" && bound !== null ? bound.port : 0, server };
	}

	it("tries a taken address again, says so once, and serves when it is free (case 39f)", async () => {
		const { log, lines } = aCapturedLog();
		const { port, server } = await aTakenPort();
		const { servers } = await started({
			log,
			healthAddress: { address: "127.0.0.1", port },
			bindRetryMs: 5,
		});
		expect(servers.healthBoundTo()).toBeUndefined();
		const errors = (): unknown[] => lines.filter(({ level }) => level === "error");
		await vi.waitFor(() => expect(errors()).toHaveLength(1));
		server.close();
		await vi.waitFor(() => expect(servers.healthBoundTo()).toBe(`127.0.0.1:${port}`));
		expect(errors()).toHaveLength(1);
		expect(lines.map(({ message }) => message)).toContain("HTTP is served now");
		expect((await ask(port, "/healthz")).status).toBe(200);
	});

	it("rejects for a taken address where that is to be an error, and leaves nothing open (case 39f)", async () => {
		const { port } = await aTakenPort();
		const starting = started({
			healthAddress: { address: "127.0.0.1", port },
			bindAddressHardFail: true,
		});
		await expect(starting).rejects.toThrow(`Cannot serve health on 127.0.0.1:${port}`);
	});

	it("serves nothing where no address is given", async () => {
		const { servers } = await started({ healthAddress: undefined, metricsAddress: undefined });
		expect([servers.healthBoundTo(), servers.metricsBoundTo()]).toEqual([undefined, undefined]);
	});

	it("closes although somebody watches, and somebody else waits for an answer", async () => {
		const render = vi.fn<() => Promise<string>>(() => new Promise(() => {}));
		const { servers, metrics } = await started({ metrics: { contentType: "text/plain", render } });
		const watcher = await watch(metrics, "/connections/watch");
		const waiting = ask(metrics, "/metrics").catch((error: unknown) => error);
		await vi.waitFor(() => expect(render).toHaveBeenCalled());
		await Promise.all([servers.close(), servers.close()]);
		await vi.waitFor(() => expect(watcher.ended()).toBe(true));
		expect(await waiting).toBeInstanceOf(Error);
		await expect(ask(metrics, "/proxyMode")).rejects.toThrow(/ECONNREFUSED/);
	});

	it.skipIf(ownAddress === undefined)(
		"lets one client over the network have 32 connections, and tells of more",
		async () => {
			const { log, lines } = aCapturedLog();
			const { health } = await started({ log, healthAddress: { address: "0.0.0.0", port: 0 } });
			const closed = vi.fn<() => void>();
			for (let index = 0; index < 35; index += 1) {
				const socket = connect(health, ownAddress ?? "");
				socket.on("error", () => {}).on("close", closed);
				cleanUps.push(() => socket.destroy());
			}
			await vi.waitFor(() => expect(closed).toHaveBeenCalledTimes(3));
			expect(lines.filter(({ level }) => level === "warn")).toEqual([
				expect.objectContaining({ message: "HTTP connections are closed to bound their number" }),
			]);
			expect((await ask(health, "/livez")).status).toBe(200);
		},
	);

	/** Opens connections, none of which asks anything; tells how many are closed by the server. */
	function hold(port: number, count: number) {
		const closed = vi.fn<() => void>();
		for (let index = 0; index < count; index += 1) {
			const socket = connect(port, "127.0.0.1");
			socket.on("error", () => {}).on("close", closed);
			cleanUps.push(() => socket.destroy());
		}
		return closed;
	}

	it.each(["127.0.0.1", ...(ownAddress === undefined ? [] : [ownAddress])])(
		"answers a probe from %s although local processes hold every connection open",
		async (host) => {
			const { log, lines } = aCapturedLog();
			const { health, metrics } = await started({
				log,
				healthAddress: { address: "0.0.0.0", port: 0 },
			});
			const closed = hold(health, 128);
			for (let turn = 1; turn <= 3; turn += 1) {
				// oxlint-disable-next-line no-await-in-loop -- one after the other
				expect((await ask(health, "/livez", { host })).status).toBe(200);
				expect(closed.mock.calls.length).toBeLessThanOrEqual(turn);
			}
			expect((await ask(metrics, "/metrics")).status).toBe(200);
			expect(lines.filter(({ level }) => level === "warn")).toEqual([
				expect.objectContaining({ message: "HTTP connections are closed to bound their number" }),
			]);
		},
	);

	it("keeps no more connections than it is told to", async () => {
		const { health } = await started({ maxConnections: 5 });
		const closed = hold(health, 12);
		await vi.waitFor(() => expect(closed).toHaveBeenCalledTimes(7));
		expect((await ask(health, "/livez")).status).toBe(200);
	});

	it("stops trying to bind once closed", async () => {
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		cleanUps.push(() => vi.useRealTimers());
		const { port } = await aTakenPort();
		const { servers } = await started({
			healthAddress: { address: "127.0.0.1", port },
			metricsAddress: undefined,
		});
		expect(vi.getTimerCount()).toBe(1);
		await servers.close();
		expect(vi.getTimerCount()).toBe(0);
	});
});
