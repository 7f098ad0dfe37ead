import { afterEach, beforeEach, describe, expect, test as it } from "vitest";

import type { EngineHooks, RelayEngine } from "../../src/proxies/engine.ts";
import type { UdpLimits } from "../../src/proxies/listener.ts";
import type { IpAddress } from "../../src/services/address.ts";
import type { ConnectionRecord } from "../../src/services/connection-record.ts";
import type { ServicePort } from "../../src/services/service-port.ts";
import {
	aDeadEndpoint,
	anAddress,
	anEndpoint,
	aUdpServicePort,
	boundSocket,
	Closer,
	descriptors,
	LabClient,
	LabEndpoint,
	until,
} from "./udp-lab.ts";

/** What the suite needs to say to an engine. */
export interface UdpConformanceOptions {
	readonly udp: UdpLimits;
	readonly hooks: EngineHooks;
	/** For an engine whose UDP listeners bind to one address of the node; of either family. */
	readonly nodeAddress: IpAddress;
}

/** How UDP has to behave, whatever the engine. Real sockets on loopback, real time. */
export function describeUdpConformance(
	name: string,
	createEngine: (options: UdpConformanceOptions) => RelayEngine,
): void {
	const patient: UdpLimits = { idleMs: 30_000, firstAnswerMs: 5_000, maxFlows: 1_000 };
	const closer = new Closer();
	let records: ConnectionRecord[] = [];
	let starts = 0;
	let engine: RelayEngine;

	/** Serves the ServicePorts; the answer is where their clients send to. */
	async function serve(
		servicePorts: readonly ServicePort[],
		limits: Partial<UdpLimits> = {},
		nodeAddress = "127.0.0.1",
	): Promise<{ address: string; port: number }[]> {
		engine = createEngine({
			udp: { ...patient, ...limits },
			nodeAddress: anAddress(nodeAddress),
			hooks: {
				onConnectionEnd: (record) => records.push(record),
				onConnectionStart: () => {
					starts += 1;
				},
				onCounted: () => {},
			},
		});
		return await reconcile(...servicePorts);
	}

	async function reconcile(...servicePorts: ServicePort[]) {
		const { bindings, problems } = await engine.reconcile(servicePorts);
		expect(problems).toEqual([]);
		return bindings.map(({ proxyPort, listenAddress = "127.0.0.1" }) => ({
			address: listenAddress,
			port: proxyPort,
		}));
	}

	async function serveEndpoints(endpoints: ServicePort["endpoints"], limits?: Partial<UdpLimits>) {
		const [to] = await serve([aUdpServicePort({ endpoints })], limits);
		return to ?? expect.unreachable("the ServicePort has no listener");
	}

	async function openEndpoint(...options: Parameters<typeof LabEndpoint.open>) {
		return closer.add(await LabEndpoint.open(...options));
	}

	async function openNamed(...names: string[]) {
		return await Promise.all(
			names.map((each) => openEndpoint({ answer: (_datagram, reply) => reply(each) })),
		);
	}

	async function openClient(...options: Parameters<typeof LabClient.open>) {
		return closer.add(await LabClient.open(...options));
	}

	function ends(): string[] {
		return records.map(({ end }) => end);
	}

	describe(name, () => {
		beforeEach(() => {
			records = [];
			starts = 0;
		});

		afterEach(async () => {
			closer.close();
			await engine.close();
		});

		it("carries datagrams both ways (classic 9.1.2)", async () => {
			const { endpoint } = await openEndpoint();
			const client = await openClient(await serveEndpoints([endpoint]));
			expect(await client.askText("hello")).toBe("hello");
			expect(await engine.connections()).toMatchObject([
				{ protocol: "udp", service: "lab/echo:dns", endpoint: endpoint.key, state: "open" },
			]);
		});

		it.each([0, 1, 1_472, 4_097, 65_507])(
			"carries %i bytes whole both ways (classic 9.1.34, 9.8.7)",
			async (size) => {
				const echo = await openEndpoint();
				const client = await openClient(await serveEndpoints([echo.endpoint]));
				const datagram = Buffer.from(
					Array.from({ length: size }, (_, index) => (index * 31) % 251),
				);
				expect((await client.ask(datagram)).equals(datagram)).toBe(true);
				expect(echo.received.map((each) => each.datagram.equals(datagram))).toEqual([true]);
			},
		);

		it("keeps the order of datagrams that come while the flow is opened", async () => {
			const echo = await openEndpoint();
			const client = await openClient(await serveEndpoints([echo.endpoint]));
			const texts = Array.from({ length: 12 }, (_, index) => `datagram ${index}`);
			for (const text of texts) client.send(text);
			await until(() => client.answers.length === texts.length, "all are answered");
			expect(echo.texts).toEqual(texts);
			expect(client.answers.map(String)).toEqual(texts);
		});

		it("carries a hundred datagrams in a row, in order", async () => {
			const echo = await openEndpoint();
			const client = await openClient(await serveEndpoints([echo.endpoint]));
			await client.askText("first");
			const texts = Array.from({ length: 100 }, (_, index) => `datagram ${index}`);
			for (const text of texts) client.send(text);
			await until(() => client.answers.length === texts.length + 1, "all are answered");
			expect(echo.texts.slice(1)).toEqual(texts);
			expect(client.answers.slice(1).map(String)).toEqual(texts);
		});

		it("answers from the address that was asked", async () => {
			const echo = await openEndpoint();
			const [to] = await serve([aUdpServicePort({ endpoints: [echo.endpoint] })], {}, "127.0.0.3");
			const asker = closer.add(await boundSocket("127.0.0.1"));
			const sources: string[] = [];
			asker.on("message", (_datagram, { address, port }) => sources.push(`${address}:${port}`));
			asker.send("hello", to?.port, "127.0.0.3");
			await until(() => sources.length > 0, "the answer is there");
			expect(sources).toEqual([`127.0.0.3:${to?.port}`]);
		});

		it("carries IPv6 (classic 9.1.38)", async () => {
			const echo = await openEndpoint({ address: "::1" });
			const servicePort = aUdpServicePort({ family: "ipv6", endpoints: [echo.endpoint] });
			const [to] = await serve([servicePort], {}, "::1");
			const client = await openClient({ address: "::1", port: to?.port ?? 0 });
			expect(await client.askText("hello")).toBe("hello");
			expect((await engine.connections())[0]?.client).toBe(`[::1]:${client.port}`);
		});

		it("gives each client its own answers", async () => {
			const { endpoint } = await openEndpoint();
			const to = await serveEndpoints([endpoint]);
			const clients = await Promise.all([openClient(to), openClient(to), openClient(to)]);
			const texts = await Promise.all(clients.map((each) => each.askText(`from ${each.port}`)));
			expect(texts).toEqual(clients.map((each) => `from ${each.port}`));
			expect(clients.map(({ answers }) => answers.length)).toEqual([1, 1, 1]);
		});

		it("goes on for a client that opens its port again", async () => {
			const { endpoint } = await openEndpoint();
			const to = await serveEndpoints([endpoint]);
			const first = await openClient(to);
			const { port } = first;
			await first.ask("one");
			first.close();
			const second = await openClient(to, { port });
			expect(await second.askText("two")).toBe("two");
			expect(engine.stats().udpFlows).toBe(1);
		});

		it("spreads flows exactly over the endpoints", async () => {
			const endpoints = await openNamed("a", "b", "c");
			const to = await serveEndpoints(endpoints.map(({ endpoint }) => endpoint));
			for (let count = 0; count < 30; count += 1) await (await openClient(to)).ask("who?");
			expect(endpoints.map(({ received }) => received.length)).toEqual([10, 10, 10]);
		});

		it("ends idle flows and closes their sockets (classic 9.1.3)", async () => {
			const { endpoint } = await openEndpoint();
			const to = await serveEndpoints([endpoint], { idleMs: 1_000 });
			const clients = await Promise.all([openClient(to), openClient(to), openClient(to)]);
			const before = descriptors();
			await Promise.all(clients.map((client) => client.ask("hello")));
			expect(engine.stats().udpFlows).toBe(3);
			await until(() => engine.stats().udpFlows === 0, "no flow is left");
			await until(() => records.length === 3, "each has its record");
			expect(ends()).toEqual(["idle", "idle", "idle"]);
			expect(descriptors()).toBe(before);
		});

		it("waits longer for an answer than for the client's next datagram", async () => {
			const { endpoint } = await openEndpoint({
				answer: (datagram, reply) => setTimeout(reply, 700, datagram),
			});
			const client = await openClient(await serveEndpoints([endpoint], { idleMs: 250 }));
			expect(await client.askText("first")).toBe("first");
			expect(await client.askText("second")).toBe("second");
		});

		it("ends a flow that never had an answer as unanswered", async () => {
			const silent = await openEndpoint({ answer: () => {} });
			const to = await serveEndpoints([silent.endpoint], { idleMs: 100, firstAnswerMs: 300 });
			(await openClient(to)).send("hello?");
			await until(() => records.length === 1, "the flow is over");
			expect(records).toMatchObject([
				{ end: "unanswered", bytesIn: 6, bytesOut: 0, datagramsIn: 1, datagramsOut: 0 },
			]);
		});

		it("loses nothing to an endpoint that refuses while there is another (case 37f)", async () => {
			const [live] = await openNamed("live");
			const dead = aDeadEndpoint();
			const to = await serveEndpoints([dead, ...(live === undefined ? [] : [live.endpoint])]);
			for (let count = 0; count < 10; count += 1) {
				expect(await (await openClient(to)).askText("who?")).toBe("live");
			}
			expect(engine.stats().droppedDatagrams).toBe(0);
			await engine.close();
			const tries = records.map(({ attempts }) => attempts.map(({ outcome }) => outcome));
			expect(tries).toContainEqual(["refused", "connected"]);
			expect(records.every(({ endpoint }) => endpoint === live?.endpoint.key)).toBe(true);
		});

		it("replaces an endpoint that refuses after it had answered, from the next datagram on (case 37f)", async () => {
			const [first, second] = await openNamed("first", "second");
			const all = [first, second].flatMap((each) => (each === undefined ? [] : [each.endpoint]));
			const client = await openClient(await serveEndpoints(all));
			const served = await client.askText("who?");
			(served === "first" ? first : second)?.close();
			client.send("lost");
			await until(() => ends().includes("endpoint-gone"), "the refusal is noticed");
			expect(await client.askText("who?")).toBe(served === "first" ? "second" : "first");
		});

		it("delivers the first datagram after the only endpoint is up again (case 37c)", async () => {
			const dead = aDeadEndpoint();
			const client = await openClient(await serveEndpoints([dead]));
			for (let count = 1; count <= 5; count += 1) {
				client.send(`lost ${count}`);
				await until(() => engine.stats().droppedDatagrams === count, `refusal ${count} is counted`);
			}
			const revived = await openEndpoint(dead);
			expect(await client.askText("hello")).toBe("hello");
			expect(revived.texts).toEqual(["hello"]);
		});

		it("counts each of several datagrams in a row that nobody takes", async () => {
			const dead = aDeadEndpoint();
			const client = await openClient(await serveEndpoints([dead]));
			for (let count = 0; count < 5; count += 1) client.send("lost");
			await until(() => engine.stats().droppedDatagrams === 5, "all are counted");
			const { udpFlows, droppedDatagramsByReason } = engine.stats();
			expect([udpFlows, droppedDatagramsByReason.get("refused")]).toEqual([0, 5]);
		});

		it("moves a flow whose endpoint was taken out, and lets answers under way arrive (classic 9.5.3)", async () => {
			let late: (() => void) | undefined;
			const leaving = await openEndpoint({
				answer: (_datagram, reply) => {
					late = () => reply("late answer of the first");
				},
			});
			const [staying] = await openNamed("second");
			const client = await openClient(await serveEndpoints([leaving.endpoint]));
			client.send("one");
			await until(() => late !== undefined, "the first endpoint has it");
			await reconcile(
				aUdpServicePort({ endpoints: staying === undefined ? [] : [staying.endpoint] }),
			);
			late?.();
			await until(() => client.answers.length === 1, "the late answer is there");
			expect(await client.askText("two")).toBe("second");
			expect(leaving.texts).toEqual(["one"]);
			await until(() => records.length > 0, "the first flow has its record");
			expect(ends()).toEqual(["endpoint-gone"]);
		});

		it("takes a proxy port of this node for no endpoint: nothing goes round", async () => {
			const to = await serveEndpoints([]);
			await reconcile(aUdpServicePort({ endpoints: [anEndpoint("127.0.0.1", to.port)] }));
			(await openClient(to)).send("for ever?");
			await until(() => records.length > 0, "a flow is over");
			expect(records).toMatchObject([
				{ end: "unreachable", attempts: [{ outcome: "refused", errorCode: "ELOOP" }] },
			]);
			expect([engine.stats().droppedDatagrams, starts]).toEqual([1, 1]);
		});

		it("drops and counts what comes while there is no endpoint (classic 9.5.3)", async () => {
			const client = await openClient(await serveEndpoints([]));
			client.send("hello?");
			await until(() => engine.stats().droppedDatagrams === 1, "it is counted");
			expect(engine.stats().droppedDatagramsByReason.get("no-endpoint")).toBe(1);
			expect([engine.stats().udpFlows, starts]).toEqual([0, 0]);
			const [back] = await openNamed("back");
			await reconcile(aUdpServicePort({ endpoints: back === undefined ? [] : [back.endpoint] }));
			expect(await client.askText("who?")).toBe("back");
		});

		it("keeps a client's address with one endpoint, and moves it when that one refuses (classic 9.1.24)", async () => {
			const endpoints = await openNamed("a", "b", "c");
			const [to] = await serve([
				aUdpServicePort({
					endpoints: endpoints.map(({ endpoint }) => endpoint),
					sessionAffinity: { type: "ClientIP", timeoutMs: 10_800_000 },
				}),
			]);
			const target = to ?? expect.unreachable("no listener");
			const ask = async (address = "127.0.0.1") =>
				await (await openClient(target, { address })).askText("who?");
			const own = await ask();
			expect([await ask(), await ask(), await ask()]).toEqual([own, own, own]);
			expect(await ask("127.0.0.2")).not.toBe(own);
			endpoints.find((_, index) => ["a", "b", "c"][index] === own)?.close();
			const moved = await ask();
			expect(moved).not.toBe(own);
			expect([await ask(), await ask()]).toEqual([moved, moved]);
		});

		it("keeps a client's address with one endpoint from when affinity is switched on", async () => {
			const endpoints = (await openNamed("a", "b", "c")).map(({ endpoint }) => endpoint);
			const [to] = await serve([aUdpServicePort({ endpoints })]);
			const target = to ?? expect.unreachable("no listener");
			const ask = async () => await (await openClient(target)).askText("who?");
			for (let count = 0; count < 6; count += 1) await ask();
			const sessionAffinity = { type: "ClientIP", timeoutMs: 10_800_000 } as const;
			await reconcile(aUdpServicePort({ endpoints, sessionAffinity }));
			const own = await ask();
			for (let count = 0; count < 12; count += 1) expect(await ask()).toBe(own);
		});

		it("has one session affinity for both pools of a port", async () => {
			const endpoints = (await openNamed("a", "b", "c")).map(({ endpoint }) => endpoint);
			const sessionAffinity = { type: "ClientIP", timeoutMs: 10_800_000 } as const;
			const cluster = aUdpServicePort({ endpoints, sessionAffinity });
			const localOf = (here: typeof endpoints) =>
				aUdpServicePort({ endpoints: here, sessionAffinity, pool: "local" });
			const targets = await serve([cluster, localOf(endpoints)]);
			const ask = async (pool: 0 | 1) => {
				const target = targets[pool] ?? expect.unreachable("no listener");
				return await (await openClient(target)).askText("who?");
			};
			const own = await ask(0);
			await reconcile(cluster, localOf(endpoints.filter((_, at) => ["a", "b", "c"][at] !== own)));
			const moved = await ask(1);
			expect(moved).not.toBe(own);
			expect([await ask(0), await ask(1)]).toEqual([moved, moved]);
		});

		it("bounds the flows: the least recently used make room, their sockets closed (case 14b)", async () => {
			const echo = await openEndpoint();
			const to = await serveEndpoints([echo.endpoint], { maxFlows: 4 });
			const clients = await Promise.all(Array.from({ length: 10 }, () => openClient(to)));
			const before = descriptors();
			for (const client of clients) await client.ask(`${client.port}`);
			expect(engine.stats()).toMatchObject({ udpFlows: 4, evictedFlows: 6 });
			expect(descriptors()).toBe(before + 4);
			await until(() => records.length === 6, "each has its record");
			expect(ends()).toEqual(Array.from({ length: 6 }, () => "evicted"));
			expect((await engine.connections()).map(({ client }) => client)).toEqual(
				clients.slice(6).map(({ port }) => `127.0.0.1:${port}`),
			);
			// The first has a new flow, and everybody is answered still.
			for (const client of clients) expect(await client.askText("again")).toBe("again");
		});

		it("does not press out the flows of one Service for those of another", async () => {
			const echo = await openEndpoint();
			const endpoints = [echo.endpoint];
			const [quiet, busy] = await serve(
				[aUdpServicePort({ name: "quiet", endpoints }), aUdpServicePort({ endpoints })],
				{ maxFlows: 6 },
			);
			const targets = [quiet, busy].map((each) => each ?? expect.unreachable("no listener"));
			const [toQuiet, toBusy] = targets;
			if (toQuiet === undefined || toBusy === undefined) return;
			const steady = [await openClient(toQuiet), await openClient(toQuiet)];
			for (const client of steady) await client.ask("hello");
			for (let count = 0; count < 20; count += 1) await (await openClient(toBusy)).ask("flood");
			const left = (await engine.connections()).map(({ service }) => service);
			expect(left.filter((service) => service === "lab/quiet:dns")).toHaveLength(2);
			expect(left.filter((service) => service === "lab/echo:dns")).toHaveLength(4);
		});

		it("survives 20,000 datagrams from 5,000 source ports (case 14a)", async () => {
			const { endpoint } = await openEndpoint();
			const to = await serveEndpoints([endpoint], { idleMs: 500, maxFlows: 400 });
			const before = descriptors();
			for (let batch = 0; batch < 20; batch += 1) {
				await askFromMany(to, 250, 4);
				expect(engine.stats().udpFlows).toBeLessThanOrEqual(400);
			}
			const late = await openClient(to);
			expect(await late.askText("still there?")).toBe("still there?");
			late.close();
			await until(() => engine.stats().udpFlows === 0, "no flow is left");
			// What has happened until now has been told when this is answered.
			await engine.connections();
			// Not exactly 5,001: the kernel may give a source port again while its flow lives.
			expect(starts).toBeGreaterThan(4_000);
			await until(() => records.length === starts, "each has its record");
			expect(descriptors()).toBe(before);
		}, 60_000);

		it("tells of each flow what it was", async () => {
			const { endpoint } = await openEndpoint({ answer: (_datagram, reply) => reply("12345678") });
			const client = await openClient(await serveEndpoints([endpoint], { idleMs: 200 }));
			await client.ask("123");
			await client.ask("4567");
			await until(() => records.length === 1, "the flow is over");
			expect(records).toMatchObject([
				{
					protocol: "udp",
					family: "ipv4",
					service: "lab/echo:dns",
					client: `127.0.0.1:${client.port}`,
					endpoint: endpoint.key,
					attempts: [{ endpoint: endpoint.key, outcome: "connected", errorCode: undefined }],
					attemptCount: 1,
					affinity: undefined,
					bytesIn: 7,
					bytesOut: 16,
					datagramsIn: 2,
					datagramsOut: 2,
					end: "idle",
				},
			]);
		});

		it("ends the flows of a ServicePort that is gone, and frees its port (classic 9.1.7, 9.1.9)", async () => {
			const { endpoint } = await openEndpoint();
			const to = await serveEndpoints([endpoint]);
			// Without the listener's own.
			const before = descriptors() - 1;
			const client = await LabClient.open(to);
			await client.ask("hello");
			await reconcile();
			expect(await client.askText("still referenced")).toBe("still referenced");
			engine.retire(new Set());
			await until(() => records.length > 0, "the flow has its record");
			expect(ends()).toEqual(["stopped"]);
			client.close();
			await until(() => descriptors() === before, "the sockets are closed");
			closer.add(await boundSocket(to.address, to.port));
		});

		it("leaves nothing open after close()", async () => {
			const { endpoint } = await openEndpoint();
			const before = descriptors();
			const to = await serveEndpoints([endpoint]);
			const clients = await Promise.all([LabClient.open(to), LabClient.open(to)]);
			for (const client of clients) await client.ask("hello");
			await engine.close();
			for (const client of clients) client.close();
			expect(ends()).toEqual(["stopped", "stopped"]);
			expect(engine.stats()).toMatchObject({ listeners: 0, udpFlows: 0 });
			expect(descriptors()).toBe(before);
			await engine.close();
		});
	});
}

/** Opens clients, lets all of them ask so many times, each time waiting for all answers. */
async function askFromMany(
	to: { readonly address: string; readonly port: number },
	clientCount: number,
	times: number,
): Promise<void> {
	const clients = await Promise.all(Array.from({ length: clientCount }, () => LabClient.open(to)));
	for (let count = 1; count <= times; count += 1) {
		for (const client of clients) client.send(`${count}`);
		await until(
			() => clients.every(({ answers }) => answers.length === count),
			`each of ${clientCount} clients has ${count} answers`,
		);
	}
	for (const client of clients) client.close();
}
