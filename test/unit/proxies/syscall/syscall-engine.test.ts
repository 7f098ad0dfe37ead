import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { WORKER_DESCRIPTORS } from "../../../../src/proxies/descriptor-budget.ts";
import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import type { Endpoint } from "../../../../src/services/service-port.ts";
import type { TestEndpoint } from "../../../conformance/tcp-endpoints.ts";
import { countsOf, endOf, readToEnd, TcpLab, until } from "../../../conformance/tcp-lab.ts";
import { aUdpServicePort, LabClient, LabEndpoint } from "../../../conformance/udp-lab.ts";
import { anEndpointAt, aServicePort } from "../builders.ts";

const BY_CLIENT = { type: "ClientIP", timeoutMs: 60_000 } as const;

/** No address at all, which nothing admits: a stand-in for any bug of ours. */
function aPoisonedEndpoint(): Endpoint {
	return { ...anEndpointAt("127.0.0.1", 9), address: "poison" as Endpoint["address"] };
}

function aLab(
	workers: number,
	more: { readonly sweepMs?: number; readonly descriptorLimit?: number } = {},
): TcpLab {
	return new TcpLab(
		({ descriptorLimit, ...options }) =>
			createSyscallEngine({
				...options,
				...(descriptorLimit === undefined ? {} : { descriptorLimit }),
				bindAddress: undefined,
				udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
				sweepMs: more.sweepMs ?? 50,
				workers,
			}),
		{ descriptorLimit: more.descriptorLimit },
	);
}

let lab: TcpLab;
let echo: TestEndpoint;
beforeEach(async () => {
	lab = aLab(2);
	echo = await lab.endpoint((socket) => socket.pipe(socket));
});
afterEach(() => lab.close());

it("a worker has no more open than is reserved for it, when it relays nothing", async () => {
	const count = () => readdirSync("/proc/self/fd").length;
	// Those of the first lab are there by then.
	await lab.reconcile();
	const before = count();
	const other = aLab(4);
	await other.reconcile();
	expect(count() - before).toBeLessThanOrEqual(4 * WORKER_DESCRIPTORS);
	await other.close();
});

it("a worker hears what it is told at the moment when it goes to sleep", async () => {
	await lab.close();
	lab = aLab(1);
	echo = await lab.endpoint((socket) => socket.pipe(socket));
	await lab.connect(await lab.serve({ endpoints: [echo.endpoint] }));
	await until(() => lab.engine.stats().tcpConnections === 1, "the connection");
	// A message that wakes nobody is answered by nothing in time, and the list is empty.
	for (let count = 0; count < 4_000; count += 1) {
		const first = lab.engine.connections();
		// Somewhere in this time it has answered that one.
		const untilMs = performance.now() + (count % 400) / 4_000;
		while (performance.now() < untilMs);
		expect(await lab.engine.connections()).toHaveLength(1);
		await first;
	}
});

describe("connections that nobody wants to hear of", () => {
	it("are counted, and can be looked back on; those with trouble are told as ever", async () => {
		const { bindings } = await lab.reconcile(
			aServicePort({ name: "well", endpoints: [echo.endpoint] }),
			aServicePort({ name: "empty", endpoints: [] }),
		);
		const [well = 0, empty = 0] = bindings.map(({ proxyPort }) => proxyPort);
		lab.engine.want({ starts: false, ends: "troubled" });
		await lab.engine.recent();
		for (let count = 0; count < 3; count += 1) expect(await lab.ask(well, "hello")).toBe("hello");
		await endOf(lab.dial(empty));
		await until(() => lab.engine.stats().tcpConnections === 0, "their ends");
		const recent = await lab.engine.recent();
		expect(recent.map(({ service, end }) => `${service} ${end}`)).toEqual(
			Array.from({ length: 3 }, () => "shop/well:http closed"),
		);
		expect(lab.records.map(({ end }) => end)).toEqual(["no-endpoint"]);
		expect(lab.starts).toBe(0);
		expect(lab.countedSum("started")).toBe(4);
		expect(lab.countedSum("ended")).toBe(3);
		expect(lab.countedSum("bytesOut")).toBe(15);
	});
});

/** Sends as the FTP and Telnet of old do; Node cannot. */
const URGENT_CLIENT = `
	use Socket;
	socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
	connect($s, sockaddr_in($ARGV[0], inet_aton("127.0.0.1"))) or die;
	send($s, "before", 0);
	send($s, "!", MSG_OOB);
	send($s, "after", 0);
`;
const hasPerl = spawnSync("perl", ["-e", "use Socket"]).status === 0;

describe("a client that sends an urgent byte", () => {
	it.skipIf(!hasPerl)("loses nothing of what is before and after it", async () => {
		const received: Promise<Buffer>[] = [];
		const taker = await lab.endpoint((socket) => {
			received.push(readToEnd(socket));
			socket.end();
		});
		const { bindings } = await lab.reconcile(aServicePort({ endpoints: [taker.endpoint] }));
		const client = spawn("perl", ["-e", URGENT_CLIENT, String(bindings[0]?.proxyPort)]);
		await once(client, "exit");
		await until(() => received.length === 1, "the client");
		expect(String(await received[0])).toBe("beforeafter");
	});

	it.skipIf(!hasPerl)("has all of it passed on while it stays", async () => {
		let received = "";
		const taker = await lab.endpoint((socket) => {
			socket.on("data", (bytes) => {
				received += String(bytes);
			});
			socket.resume();
		});
		const { bindings } = await lab.reconcile(aServicePort({ endpoints: [taker.endpoint] }));
		const client = spawn("perl", [
			"-e",
			`${URGENT_CLIENT} my $end = <STDIN>;`,
			String(bindings[0]?.proxyPort),
		]);
		await until(() => received === "beforeafter", "both parts");
		client.stdin.end();
		await once(client, "exit");
	});
});

it("connections that wait for descriptors are let in in turn, whichever worker has them", async () => {
	// The first lab's workers have opened what they do by then.
	await lab.reconcile();
	// Room for the listener's two sockets and six connections. No sweep comes to anybody's help.
	const descriptorLimit = 80 + 2 * WORKER_DESCRIPTORS;
	const scarce = aLab(2, { descriptorLimit, sweepMs: 3_600_000 });
	const port = await scarce.serve({ endpoints: [echo.endpoint] });
	for (let index = 0; index < 5; index += 1) await scarce.connect(port);
	await until(() => scarce.engine.stats().tcpConnections === 5, "five relays");
	expect(countsOf(await scarce.askMany(port, 100, 2))).toEqual({ "": 100 });
	await scarce.close();
});

it("what all workers drop is one line of the log", async () => {
	const { bindings } = await lab.reconcile(aUdpServicePort({ endpoints: [] }));
	const clients = await Promise.all(
		Array.from({ length: 20 }, () =>
			LabClient.open({ address: "127.0.0.1", port: bindings[0]?.proxyPort ?? 0 }),
		),
	);
	// The kernel deals clients out: both workers have some.
	for (const client of clients) client.send("question");
	await until(() => lab.engine.stats().droppedDatagrams === 20, "all to be dropped");
	await lab.engine.connections();
	for (const client of clients) client.close();
	const warnings = lab.log.lines.filter(({ level }) => level === "warn");
	expect(warnings).toMatchObject([
		{ message: "datagrams are dropped: no-endpoint", fields: { service: "lab/echo:dns" } },
	]);
});

describe("a worker that ends by an error", () => {
	/** Two ServicePorts, each in one worker of its own, and a poisoned one in the first's. */
	async function serve() {
		const sticky = (name: string, endpoint: Endpoint) =>
			aServicePort({ name, endpoints: [endpoint], sessionAffinity: BY_CLIENT });
		const { bindings } = await lab.reconcile(
			sticky("first", echo.endpoint),
			sticky("second", echo.endpoint),
			sticky("poisoned", aPoisonedEndpoint()),
		);
		return bindings.map(({ proxyPort }) => proxyPort);
	}

	it("is replaced: its Services are served again, and others were not disturbed", async () => {
		const [first = 0, second = 0, poisoned = 0] = await serve();
		const [lost, kept] = [await lab.connect(first), await lab.connect(second)];
		await until(async () => {
			const states = (await lab.engine.connections()).map(({ state }) => state);
			return countsOf(states)["open"] === 2;
		}, "both relays");
		const atLost = endOf(lost);
		expect(await endOf(lab.dial(poisoned))).toBe("ECONNRESET");
		expect(await atLost).toBe("ECONNRESET");
		kept.write("still here");
		expect(String((await once(kept, "data"))[0])).toBe("still here");
		expect(await lab.ask(first, "hello")).toBe("hello");
		expect(lab.engine.stats()).toMatchObject({ workerFailures: 1, tcpConnections: 1 });
		kept.destroy();
		await lab.settled();
		const ends = lab.records.map(({ service, end }) => `${service} ${end}`);
		expect(countsOf(ends)).toMatchObject({
			"shop/first:http relay-failed": 1,
			"shop/poisoned:http relay-failed": 1,
			"shop/first:http closed": 1,
		});
	});

	it("ends its UDP flows as relay-failed, and the next one serves their clients", async () => {
		const named = await LabEndpoint.open({ answer: (_datagram, reply) => reply("dns") });
		const sticky = { sessionAffinity: BY_CLIENT };
		const { bindings } = await lab.reconcile(
			aUdpServicePort({ ...sticky, endpoints: [named.endpoint] }),
			aServicePort({ ...sticky, name: "of the other worker" }),
			aServicePort({ ...sticky, name: "poisoned", endpoints: [aPoisonedEndpoint()] }),
		);
		const [port = 0, , poisoned = 0] = bindings.map(({ proxyPort }) => proxyPort);
		const client = await LabClient.open({ address: "127.0.0.1", port });
		expect(await client.askText("question")).toBe("dns");
		await endOf(lab.dial(poisoned));
		await until(() => lab.records.length === 2, "both to have ended");
		expect(countsOf(lab.records.map(({ protocol, end }) => `${protocol} ${end}`))).toEqual({
			"udp relay-failed": 1,
			"tcp relay-failed": 1,
		});
		expect(await client.askText("question")).toBe("dns");
		client.close();
		named.close();
	});

	it("is told with its cause, once for all like it, and leaves no descriptor behind", async () => {
		const [first = 0, , poisoned = 0] = await serve();
		const before = lab.engine.descriptors.used;
		for (let round = 1; round <= 3; round += 1) {
			await endOf(lab.dial(poisoned));
			await until(() => lab.engine.stats().workerFailures === round, "the failure");
			expect(await lab.ask(first, "hello")).toBe("hello");
		}
		await lab.settled();
		expect(lab.engine.descriptors.used).toBe(before);
		const said = lab.log.lines.filter(({ level }) => level === "error");
		expect(said).toMatchObject([
			{
				message: "relay worker ended, another takes its place",
				fields: { error: expect.stringContaining("has neither IPv6 nor IPv4 format"), worker: 1 },
			},
		]);
		expect(lab.engine.stats().lastWorkerFailure?.error).toMatch(/format$/);
	});
});
