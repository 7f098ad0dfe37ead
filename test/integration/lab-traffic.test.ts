import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import { type Agent, tally } from "../kit/agent.ts";
import { patternSha256 } from "../kit/agent-pattern.ts";
import { type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { createLab, type Lab, labProblem } from "../kit/lab.ts";

/** The kit that all other kernel tests stand on, tested itself: straight traffic, no daemon. */
describe.skipIf(labProblem() !== undefined)("the traffic agent", () => {
	let lab: Lab;
	let client: Agent;
	let endpoint: Agent;
	const to = "10.2.1.2";

	beforeAll(async () => {
		lab = await createLab({ endpoints: 1 });
		const [first = lab.outside] = lab.endpoints;
		[client, endpoint] = await Promise.all([lab.client.agent(), first.agent()]);
	});
	afterAll(async () => {
		await lab.close();
	});

	it("makes many connections and tells who answered each", async () => {
		const server = await endpoint.serveTcp({ mode: "greet", name: "ep1", port: 21_001 });
		const results = await client.tcp({ address: to, port: 21_001, count: 200, concurrency: 20 });
		expect(tally(results)).toEqual({ ep1: 200 });
		expect(await server.stats()).toMatchObject({ received: 200, bytes: 0 });
	});

	it("keeps reading after its own FIN, and tells that all bytes arrived whole", async () => {
		await endpoint.serveTcp({ mode: "upload", name: "ep1", port: 21_002 });
		const bytes = 3_000_000;
		const [result] = await client.tcp({ address: to, port: 21_002, sendBytes: bytes });
		expect(result?.answer).toBe(`ep1 ${bytes} ${patternSha256(bytes)}`);
	});

	it("downloads whole", async () => {
		const bytes = 3_000_000;
		await endpoint.serveTcp({ mode: "download", name: "ep1", port: 21_003, bytes });
		const [result] = await client.tcp({ address: to, port: 21_003, after: "read" });
		expect(result).toMatchObject({ bytes, sha256: patternSha256(bytes), error: undefined });
	});

	it("tells refused, reset and silent apart", async () => {
		await endpoint.serveTcp({ mode: "reset", name: "ep1", port: 21_004 });
		await endpoint.serveTcp({ mode: "silent", name: "ep1", port: 21_005 });
		const [refused] = await client.tcp({ address: to, port: 21_006 });
		const [reset] = await client.tcp({ address: to, port: 21_004, send: "x", after: "read" });
		const [silent] = await client.tcp({ address: to, port: 21_005, send: "x", timeoutMs: 150 });
		expect(refused).toMatchObject({ error: "ECONNREFUSED", connected: false });
		expect(reset).toMatchObject({ error: "ECONNRESET", connected: true });
		expect(silent).toMatchObject({ error: "TIMEOUT", connected: true });
	});

	it("speaks HTTP", async () => {
		await endpoint.serveTcp({ mode: "http", name: "ep1", port: 21_007 });
		expect(await client.get(`http://${to}:21007/`)).toMatchObject({ status: 200, body: "ep1" });
	});

	it("drives a held connection step by step", async () => {
		await endpoint.serveTcp({ mode: "echo", name: "ep1", port: 21_008 });
		const connection = await client.connect({ address: to, port: 21_008 });
		await connection.write("hello");
		expect(await connection.read(5)).toMatchObject({ text: "hello", ended: false });
		await connection.finish("end");
		expect(await connection.read("end")).toMatchObject({ bytes: 5, ended: true, error: undefined });
	});

	it("fills the buffers of a peer that does not read, and says so", async () => {
		await endpoint.serveTcp({ mode: "silent", name: "ep1", port: 21_009 });
		const connection = await client.connect({ address: to, port: 21_009 });
		expect(await connection.write({ bytes: 32 * 1024 * 1024 }, 150)).toBe(false);
		expect(await connection.finish("reset")).toMatchObject({ closed: true });
	});

	it("reports the peer's reset of a held connection", async () => {
		const server = await endpoint.serveTcp({ mode: "sink", name: "ep1", port: 21_010 });
		const connection = await client.connect({ address: to, port: 21_010 });
		await expect.poll(async () => (await server.stats()).open).toBe(1);
		await server.close({ abruptly: true });
		expect(await connection.read("closed")).toMatchObject({ closed: true, error: "ECONNRESET" });
	});

	it("sends datagrams up to the largest and tells who answered from where", async () => {
		const server = await endpoint.serveUdp({ mode: "echo", name: "ep1", port: 21_011 });
		const [largest] = await client.udp({ address: to, port: 21_011, sendBytes: 65_507 });
		expect(largest).toMatchObject({ from: `${to}:21011`, sha256: patternSha256(65_507) });
		const each = await client.udp({
			address: to,
			port: 21_011,
			count: 3,
			socketEach: true,
			localPort: 21_600,
		});
		expect(each.map(({ localPort }) => localPort)).toEqual([21_600, 21_601, 21_602]);
		const one = await client.udp({ address: to, port: 21_011, count: 3, localPort: 21_500 });
		expect(one.map(({ localPort }) => localPort)).toEqual([21_500, 21_500, 21_500]);
		expect(await server.stats()).toMatchObject({ received: 7 });
	});

	it("sees port unreachable on a connected UDP socket, and silence as a timeout", async () => {
		const gone = await client.udp({ address: to, port: 21_012, connected: true });
		expect(gone).toMatchObject([{ error: "ECONNREFUSED" }]);
		await endpoint.serveUdp({ mode: "sink", name: "ep1", port: 21_013 });
		const silent = await client.udp({ address: to, port: 21_013, timeoutMs: 100 });
		expect(silent).toMatchObject([{ error: "TIMEOUT", from: undefined }]);
	});

	it("frees the port when a server closes", async () => {
		const server = await endpoint.serveTcp({ mode: "greet", name: "one", port: 21_014 });
		await expect(
			endpoint.serveTcp({ mode: "greet", name: "two", port: 21_014 }),
		).rejects.toMatchObject({ code: "EADDRINUSE" });
		await server.close();
		await endpoint.serveTcp({ mode: "greet", name: "two", port: 21_014 });
		expect(tally(await client.tcp({ address: to, port: 21_014 }))).toEqual({ two: 1 });
	});

	it("can be killed and started again; what waited for it fails", async () => {
		const victim = await lab.outside.agent();
		await victim.serveTcp({ mode: "silent", name: "gone", port: 21_015 });
		const waiting = victim.tcp({ address: to, port: 21_005 });
		const failed = expect(waiting).rejects.toThrow("has ended");
		await victim.kill();
		await failed;
		const again = await lab.outside.agent();
		expect(again.pid).not.toBe(victim.pid);
		await again.serveTcp({ mode: "greet", name: "back", port: 21_015 });
		expect(tally(await client.tcp({ address: "10.3.0.2", port: 21_015 }))).toEqual({ back: 1 });
	});
});

describe.skipIf(labProblem() !== undefined)("the daemon as a process", () => {
	const standIn = fileURLToPath(new URL("../kit/lab-stand-in.ts", import.meta.url));
	let lab: Lab;
	const start = (...program: string[]): DaemonProcess =>
		startDaemon({ in: lab.node, flags: [], program });

	beforeAll(async () => {
		lab = await createLab({ endpoints: 1 });
		await (await lab.endpoints[0]?.agent())?.serveTcp({ mode: "greet", name: "ep1", port: 8080 });
	});
	afterAll(async () => {
		await lab.close();
	});

	it("is ready, relays, logs, and ends as it is told", async () => {
		const daemon = start(standIn, "10.96.0.10", "80", "10.2.1.2", "8080");
		await daemon.ready();
		const client = await lab.client.agent();
		const results = await client.tcp({ address: "10.96.0.10", port: 80, after: "read" });
		expect(tally(results)).toEqual({ ep1: 1 });
		expect(await daemon.waitForLog(({ msg }) => msg === "connection")).toMatchObject({
			client: "10.1.0.2",
		});
		expect(daemon.stderr).toBe("not json\n");
		expect(await daemon.stop()).toEqual({ code: 0, signal: null });
		expect(daemon.logs.at(-1)?.msg).toBe("stopped");
	});

	it("can be killed, and leaves its rules then", async () => {
		const daemon = start(standIn, "10.96.0.10", "80", "10.2.1.2", "8080");
		await daemon.ready();
		await daemon.kill9();
		expect(await daemon.ended).toEqual({ code: null, signal: "SIGKILL" });
		const { stdout } = await lab.node.exec("iptables", ["-t", "nat", "-S", "PREROUTING"]);
		expect(stdout).toContain("REDIRECT");
		await lab.node.exec("iptables", ["-t", "nat", "-F"]);
	});

	it("tells why it never became ready", async () => {
		const daemon = start("-e", "console.error('no such flag'); process.exit(2)");
		await expect(daemon.ready()).rejects.toThrow(/status 2.*no such flag/s);
		expect(await daemon.ended).toEqual({ code: 2, signal: null });
	});

	it("is given up when it does not end in time", async () => {
		const daemon = start(
			"-e",
			"process.on('SIGTERM', () => {}); console.log('{\"msg\":\"ready\"}'); setInterval(() => {}, 1000)",
		);
		await daemon.ready();
		await expect(daemon.stop("SIGTERM", 100)).rejects.toThrow("did not end");
	});
});
