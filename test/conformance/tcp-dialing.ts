import { once } from "node:events";
import { connect } from "node:net";

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import type { SessionAffinity } from "../../src/services/objects.ts";
import type { Endpoint } from "../../src/services/service-port.ts";
import { anEndpointAt, aServicePort } from "../unit/proxies/builders.ts";
import { aRefusingEndpoint, type TestEndpoint } from "./tcp-endpoints.ts";
import {
	type CreateEngine,
	count,
	countsOf,
	endOf,
	readToEnd,
	sha256,
	someBytes,
	TcpLab,
	until,
} from "./tcp-lab.ts";

const BY_CLIENT: SessionAffinity = { type: "ClientIP", timeoutMs: 10_800_000 };

/** Which endpoint a connection gets, and what happens when it does not answer. */
export function describeDialing(createEngine: CreateEngine): void {
	let lab: TcpLab;
	beforeEach(() => {
		lab = new TcpLab(createEngine);
	});
	afterEach(() => lab.close());

	const endpointsOf = (servers: readonly { readonly endpoint: Endpoint }[]) =>
		servers.map(({ endpoint }) => endpoint);

	/** Timeouts that clients had to wait for so far. */
	const timeouts = () =>
		lab.records.flatMap(({ attempts }) => attempts).filter(({ outcome }) => outcome === "timeout")
			.length;

	describe("spreading", () => {
		it("1,000 connections over 3 endpoints are 333, 333 and 334", async () => {
			const port = await lab.serve({ endpoints: endpointsOf(await lab.numbered(3)) });
			const answers = await lab.askMany(port, 1000, 20);
			const counts = ["1", "2", "3"].map((name) => count(answers, name));
			expect(counts.toSorted((a, b) => a - b)).toEqual([333, 333, 334]);
		});

		it("a new endpoint gets its share and one that went gets nothing", async () => {
			const [a, b, c] = endpointsOf(await lab.numbered(3));
			if (a === undefined || b === undefined || c === undefined) return expect.unreachable();
			const port = await lab.serve({ endpoints: [a, b] });
			await lab.askMany(port, 10, 1);
			await lab.serve({ endpoints: [b, c] });
			expect(countsOf(await lab.askMany(port, 10, 1))).toEqual({ 2: 5, 3: 5 });
		});
	});

	describe("an endpoint that refuses", () => {
		it("costs nobody the connection: 1,000 of 1,000 succeed", async () => {
			const endpoints = [...endpointsOf(await lab.numbered(2)), await aRefusingEndpoint()];
			const port = await lab.serve({ endpoints });
			const answers = await lab.askMany(port, 1000, 20);
			expect(count(answers, "1") + count(answers, "2")).toBe(1000);
		});

		it("is in the record, and the next endpoint after it (classic 9.1.23)", async () => {
			const refusing = await aRefusingEndpoint();
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [refusing, echo.endpoint] });
			// One of the first two begins with the endpoint that refuses.
			await lab.ask(port, "1");
			await lab.ask(port, "2");
			await lab.settled();
			const record = lab.records.find(({ attemptCount }) => attemptCount === 2);
			expect(record).toMatchObject({
				service: "shop/cart:http",
				protocol: "tcp",
				family: "ipv4",
				endpoint: echo.endpoint.key,
				podName: echo.endpoint.podName,
				affinity: undefined,
				bytesIn: 1,
				bytesOut: 1,
				end: "closed",
				attempts: [
					{ endpoint: refusing.key, outcome: "refused", errorCode: "ECONNREFUSED" },
					{ endpoint: echo.endpoint.key, outcome: "connected", errorCode: undefined },
				],
			});
			expect(record?.client).toMatch(/^127\.0\.0\.1:\d+$/);
			expect(record?.connectMs).toBeLessThanOrEqual(record?.durationMs ?? 0);
		});

		it("and is the only one ends with a reset after every attempt", async () => {
			const endpoint = await aRefusingEndpoint();
			const port = await lab.serve({ endpoints: [endpoint] });
			expect(await endOf(lab.dial(port))).toBe("ECONNRESET");
			const record = await lab.record();
			expect(record).toMatchObject({ end: "unreachable", endpoint: undefined, attemptCount: 4 });
			expect(countsOf(record.attempts.map(({ outcome }) => outcome))).toEqual({ refused: 4 });
		});

		it("serves again as soon as it listens when it is the only one", async () => {
			const endpoint = await aRefusingEndpoint();
			const port = await lab.serve({ endpoints: [endpoint] });
			await endOf(lab.dial(port));
			await lab.endpoint((socket) => socket.pipe(socket), { port: endpoint.port });
			expect(await lab.ask(port, "hello")).toBe("hello");
		});
	});

	it("an endpoint that failed lately is told of, and not when it answered since", async () => {
		const refusing = await aRefusingEndpoint();
		const servicePort = aServicePort({ endpoints: [refusing] });
		const { bindings } = await lab.reconcile(servicePort);
		const port = bindings[0]?.proxyPort ?? 0;
		expect(await lab.engine.failingEndpoints()).toEqual(new Map());
		await endOf(lab.dial(port));
		expect(await lab.engine.failingEndpoints()).toEqual(
			new Map([[servicePort.key, [refusing.key]]]),
		);
		await lab.endpoint((socket) => socket.pipe(socket), { port: refusing.port });
		expect(await lab.ask(port, "hello")).toBe("hello");
		expect(await lab.engine.failingEndpoints()).toEqual(new Map());
	});

	it("an endpoint that is a proxy port of this node is no endpoint: nothing goes round", async () => {
		const port = await lab.serve({ endpoints: [] });
		await lab.serve({ endpoints: [anEndpointAt("127.0.0.1", port)] });
		expect(await endOf(lab.dial(port))).toBe("ECONNRESET");
		expect(await lab.record()).toMatchObject({
			end: "unreachable",
			attempts: Array.from({ length: 4 }, () => ({ outcome: "refused", errorCode: "ELOOP" })),
		});
		expect(lab.starts).toBe(1);
	});

	describe("an endpoint that is silent", () => {
		it("costs nobody the connection, and almost nobody its timeout: 1,000 of 1,000 succeed", async () => {
			const silent = await lab.silentEndpoint();
			const endpoints = [...endpointsOf(await lab.numbered(2)), silent.endpoint];
			const port = await lab.serve({ endpoints });
			const answers = await lab.askMany(port, 1000, 10);
			expect(count(answers, "1") + count(answers, "2")).toBe(1000);
			// Those that came before its first failure, and one after each penalty.
			await lab.settled();
			expect(timeouts()).toBeGreaterThan(0);
			expect(timeouts()).toBeLessThan(30);
		});

		it("and one that refuses beside a good one: 50 that send at once are all answered (case 24a)", async () => {
			const silent = await lab.silentEndpoint();
			const good = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({
				endpoints: [silent.endpoint, await aRefusingEndpoint(), good.endpoint],
			});
			const asked = Array.from({ length: 50 }, (_, index) => `request ${index}`);
			const answers = await Promise.all(asked.map((request) => lab.ask(port, request)));
			expect(answers).toEqual(asked);
			await lab.settled();
			for (const { attempts } of lab.records) {
				expect(new Set(attempts.map(({ endpoint }) => endpoint)).size).toBe(attempts.length);
			}
		});

		it("does not keep others waiting: connections dial side by side (case 24f)", async () => {
			const silent = await lab.silentEndpoint();
			const { bindings } = await lab.reconcile(
				aServicePort({ name: "slow", endpoints: [silent.endpoint] }),
			);
			const clients = Array.from({ length: 20 }, () => lab.dial(bindings[0]?.proxyPort ?? 0));
			await until(async () => (await lab.engine.connections()).length === 20, "all to be accepted");
			const live = await lab.engine.connections();
			expect(countsOf(live.map(({ state }) => state))).toEqual({ dialing: 20 });
			expect(live.map(({ endpoint }) => endpoint)).toEqual(clients.map(() => undefined));
		});
	});

	describe("what a client does meanwhile", () => {
		/** One connection that finds the silent endpoint first. Its bytes go to the echo. */
		async function askPastSilence(request: Buffer): Promise<Buffer> {
			const silent = await lab.silentEndpoint();
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [silent.endpoint, echo.endpoint] });
			// The first of the two, or the second, begins with the silent one.
			for (let turn = 0; turn < 2; turn += 1) {
				const socket = lab.dial(port);
				socket.end(request);
				const answer = await readToEnd(socket);
				await lab.settled();
				const record = lab.records.at(-1);
				if (record?.attempts[0]?.outcome === "timeout") return answer;
			}
			return expect.unreachable("nobody met the silent endpoint");
		}

		it("first bytes and FIN that come during the dial are passed on after it (case 24c)", async () => {
			expect((await askPastSilence(Buffer.from("hello"))).toString()).toBe("hello");
			expect(lab.records.at(-1)).toMatchObject({ end: "closed", bytesIn: 5, bytesOut: 5 });
		});

		it("a FIN alone is passed on", async () => {
			expect((await askPastSilence(Buffer.alloc(0))).toString()).toBe("");
			expect(lab.records.at(-1)).toMatchObject({ end: "closed", attemptCount: 2 });
		});

		it("more than is held back is passed on whole (case 24c)", async () => {
			const request = someBytes(1024 * 1024);
			expect(sha256(await askPastSilence(request))).toBe(sha256(request));
		});

		it("a reset ends the tries at once (case 24e)", async () => {
			await lab.close();
			lab = new TcpLab(createEngine, { dialTimeoutsMs: [60_000, 60_000] });
			const silent = await lab.silentEndpoint();
			const client = await lab.connect(await lab.serve({ endpoints: [silent.endpoint] }));
			await until(
				async () => (await lab.engine.connections()).length > 0,
				"the client to be accepted",
			);
			// Its endpoint is dialed in the turn after that. One turn answers eight questions at most.
			for (let question = 0; question < 9; question += 1) {
				// oxlint-disable-next-line no-await-in-loop -- one after the other is the point
				await lab.engine.connections();
			}
			client.resetAndDestroy();
			expect(await lab.record()).toMatchObject({
				end: "client-gone",
				endpoint: undefined,
				connectMs: undefined,
				attemptCount: 1,
				attempts: [{ endpoint: silent.endpoint.key, outcome: "abandoned" }],
			});
		});
	});

	describe("no endpoint", () => {
		it("is a reset at once, and nothing to remember when one comes (case 34c)", async () => {
			const port = await lab.serve({ endpoints: [] });
			expect(await endOf(lab.dial(port))).toBe("ECONNRESET");
			expect(await lab.record()).toMatchObject({ end: "no-endpoint", attemptCount: 0 });
			await lab.serve({ endpoints: endpointsOf(await lab.numbered(1)) });
			expect(await lab.ask(port)).toBe("1");
		});
	});

	describe("session affinity", () => {
		const serveSticky = (servers: readonly TestEndpoint[], sessionAffinity = BY_CLIENT) =>
			lab.serve({ endpoints: endpointsOf(servers), sessionAffinity });

		it("keeps a client at its endpoint", async () => {
			const port = await serveSticky(await lab.numbered(3));
			expect(Object.values(countsOf(await lab.askMany(port, 30, 10)))).toEqual([30]);
			await lab.settled();
			const affinities = lab.records.map(({ affinity }) => affinity);
			expect(count(affinities, "assigned")).toBeGreaterThan(0);
			expect(count(affinities, "assigned") + count(affinities, "kept")).toBe(30);
		});

		it("moves to the endpoint that answered, and stays there (classic 9.1.24)", async () => {
			const servers = await lab.numbered(3);
			const port = await serveSticky(servers);
			const first = Number(await lab.ask(port));
			await servers[first - 1]?.close();
			const second = await lab.ask(port);
			expect(second).not.toBe(String(first));
			await lab.settled();
			expect(lab.records.at(-1)).toMatchObject({ affinity: "moved", attemptCount: 2 });
			expect(countsOf(await lab.askMany(port, 20, 5))).toEqual({ [second]: 20 });
			await lab.settled();
			expect(lab.records.at(-1)).toMatchObject({ affinity: "kept", attemptCount: 1 });
		});

		it("forgets who came long ago when there are too many, counts them, and says so once", async () => {
			await lab.close();
			lab = new TcpLab(createEngine, { maxAffinityClients: 2 });
			const port = await serveSticky(await lab.numbered(3));
			for (const host of [1, 2, 3, 4, 5]) {
				const from = connect({ host: "127.0.0.1", port, localAddress: `127.0.0.${host}` });
				expect(String(await readToEnd(from))).toMatch(/^[123]$/);
			}
			await until(() => lab.engine.stats().affinityEvictions === 3, "three to be forgotten");
			const said = lab.log.lines.filter(({ message }) => message.includes("affinity forgets"));
			expect(said.map(({ level }) => level)).toEqual(["warn"]);
		});

		it("is one for both pools of a port", async () => {
			const servers = await lab.numbered(3);
			const parts = { endpoints: endpointsOf(servers), sessionAffinity: BY_CLIENT };
			const serveBoth = async (here: readonly TestEndpoint[]) => {
				const local = { ...parts, endpoints: endpointsOf(here), pool: "local" } as const;
				const { bindings } = await lab.reconcile(aServicePort(parts), aServicePort(local));
				return bindings.map(({ proxyPort }) => proxyPort);
			};
			const [all = 0, here = 0] = await serveBoth(servers);
			const own = await lab.ask(all);
			await serveBoth(servers.filter((_, index) => String(index + 1) !== own));
			const moved = await lab.ask(here);
			expect(moved).not.toBe(own);
			expect([await lab.ask(all), await lab.ask(here)]).toEqual([moved, moved]);
		});

		it("holds from then on where it is switched on, for each of a client's connections", async () => {
			const servers = await lab.numbered(3);
			const port = await serveSticky(servers, { type: "None" });
			await lab.askMany(port, 9, 3);
			await serveSticky(servers);
			const own = await lab.ask(port);
			expect(countsOf(await lab.askMany(port, 40, 4))).toEqual({ [own]: 40 });
		});

		it("is changed live: timeout, off and on (classic 9.1.33, 9.8.5)", async () => {
			const servers = await lab.numbered(2);
			const port = await serveSticky(servers);
			const first = await lab.ask(port);
			expect(await lab.ask(port)).toBe(first);
			// So short that it is over at the next connection, with which it would have to slide.
			await serveSticky(servers, { type: "ClientIP", timeoutMs: 0 });
			expect(await lab.ask(port)).not.toBe(first);
			await serveSticky(servers, { type: "None" });
			const both = [await lab.ask(port), await lab.ask(port)];
			expect(countsOf(both)).toEqual({ 1: 1, 2: 1 });
			await serveSticky(servers);
			const again = await lab.ask(port);
			expect([await lab.ask(port), await lab.ask(port)]).toEqual([again, again]);
		});
	});

	describe("changes meanwhile", () => {
		it("an open relay goes on when its endpoint leaves the list, and new ones go elsewhere (case 25a)", async () => {
			const echo = await lab.endpoint((socket) => socket.pipe(socket));
			const port = await lab.serve({ endpoints: [echo.endpoint] });
			const client = await lab.connect(port);
			client.write("a");
			expect(String((await once(client, "data"))[0])).toBe("a");
			await lab.serve({ endpoints: endpointsOf(await lab.numbered(1)) });
			expect(await lab.ask(port)).toBe("1");
			client.write("b");
			expect(String((await once(client, "data"))[0])).toBe("b");
			expect(echo.accepted).toBe(1);
		});

		it("a Service that goes disturbs no rotation and no affinity of another (classic 9.2.6, 9.2.11)", async () => {
			const endpoints = endpointsOf(await lab.numbered(3));
			const [foo, bar, sticky] = [
				aServicePort({ name: "foo", endpoints, sessionAffinity: BY_CLIENT }),
				aServicePort({ name: "bar", endpoints }),
				aServicePort({ name: "sticky", endpoints, sessionAffinity: BY_CLIENT }),
			];
			const { bindings } = await lab.reconcile(foo, bar, sticky);
			const [toFoo = 0, toBar = 0, toSticky = 0] = bindings.map(({ proxyPort }) => proxyPort);
			await lab.ask(toFoo);
			const first = Number(await lab.ask(toBar));
			const own = await lab.ask(toSticky);
			await lab.reconcile(bar, sticky);
			lab.engine.retire(new Set());
			expect(await endOf(lab.dial(toFoo))).toBe("ECONNREFUSED");
			const next = [Number(await lab.ask(toBar)), Number(await lab.ask(toBar))];
			expect(next).toEqual([(first % 3) + 1, ((first + 1) % 3) + 1]);
			expect([await lab.ask(toSticky), await lab.ask(toSticky)]).toEqual([own, own]);
		});
	});
}
