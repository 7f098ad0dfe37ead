import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import type { Agent, RemoteConnection } from "../kit/agent.ts";
import { type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { createLab, type Lab, labProblem } from "../kit/lab.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";

const ENGINE = fileURLToPath(new URL("../kit/engine-stand-in.ts", import.meta.url));

/** Keepalive: 15 s of silence, then ten questions a second apart; and some more for a busy machine. */
const KEEPALIVE_MS = 40_000;

/** Far more than the kernel's buffers take from a relay whose peer does not read. */
const TOO_MUCH_BYTES = 64 * 1024 * 1024;

/** So often the node's kernel asks a peer who does not answer: seconds, instead of a quarter of an hour. */
const FEW_RETRIES = 4;

type EngineName = (typeof RELAY_ENGINES)[number];

/** One engine on the node with relays that its peers vanish from. */
interface Relays {
	readonly engine: DaemonProcess;
	/** From the client to ep1, from outside to ep2, from outside to ep1: idle. */
	readonly vanishing: RemoteConnection;
	readonly orphaned: RemoteConnection;
	readonly healthy: RemoteConnection;
	/** From outside to ep3, which does not read; from ep1 to outside, which does not read. */
	readonly sending: RemoteConnection;
	readonly receiving: RemoteConnection;
}

/** Peers whose link goes down send no FIN and no RST: only the kernel's timers can find out. */
describe.skipIf(labProblem() !== undefined)("relays whose peers vanish", () => {
	let lab: Lab;
	const relays = new Map<EngineName, Relays>();

	beforeAll(async () => {
		lab = await createLab({ endpoints: 3 });
		await lab.node.sysctl({ "net.ipv4.tcp_retries2": String(FEW_RETRIES) });
		const [ep1, ep2, ep3] = await Promise.all(lab.endpoints.map((each) => each.agent()));
		await ep1?.serveTcp({ mode: "echo", name: "ep1", port: 8080 });
		await ep1?.serveTcp({ mode: "download", name: "ep1", port: 8081, bytes: TOO_MUCH_BYTES });
		await ep2?.serveTcp({ mode: "echo", name: "ep2", port: 8080 });
		await ep3?.serveTcp({ mode: "silent", name: "ep3", port: 8080 });
		const agents = [await lab.client.agent(), await lab.outside.agent()] as const;
		for (const name of RELAY_ENGINES) {
			// oxlint-disable-next-line no-await-in-loop -- two of them
			relays.set(name, await openRelays(lab, name, ...agents));
		}
		for (const { receiving } of relays.values()) {
			// oxlint-disable-next-line no-await-in-loop -- they change the same table
			await lab.outside.goSilent((await receiving.state()).localPort ?? 0);
		}
		await lab.endpoints[2]?.goSilent(8080);
		await lab.client.ip("link", "set", "eth0", "down");
		await lab.endpoints[1]?.ip("link", "set", "eth0", "down");
	});
	afterAll(async () => {
		await lab.close();
	});

	/** How the relays to an endpoint ended, where one has. */
	const endsOf = ({ engine }: Relays, endpoint: string) =>
		engine.logs
			.filter((line) => line.msg === "connection" && line["endpoint"] === endpoint)
			.map(({ end }) => end);

	const of = (name: EngineName) => relays.get(name) ?? expect.unreachable("not open");

	it.each(RELAY_ENGINES)(
		"%s: with bytes in flight are over when the kernel gives up, and the other peer is told",
		async (name) => {
			const each = of(name);
			const inTime = { timeout: KEEPALIVE_MS, interval: 250 };
			await expect.poll(() => endsOf(each, "10.2.3.2:8080"), inTime).toEqual(["endpoint-vanished"]);
			await expect.poll(() => endsOf(each, "10.2.1.2:8081"), inTime).toEqual(["client-vanished"]);
			expect(await each.sending.read("closed")).toMatchObject({ error: "ECONNRESET" });
			expect((await each.receiving.state()).closed).toBe(false);
		},
	);

	it.each(RELAY_ENGINES)(
		"%s: that are idle go with both sockets, and a healthy one stays (case 9c, case 9f, case 25b)",
		async (name) => {
			const each = of(name);
			const inTime = { timeout: KEEPALIVE_MS, interval: 250 };
			await expect.poll(() => endsOf(each, "10.2.1.2:8080"), inTime).toEqual(["client-vanished"]);
			await expect.poll(() => endsOf(each, "10.2.2.2:8080"), inTime).toEqual(["endpoint-vanished"]);
			// The peer that is still there is told.
			expect(await each.orphaned.read("closed")).toMatchObject({ error: "ECONNRESET" });
			await each.healthy.write("still there");
			expect(await each.healthy.read(16)).toMatchObject({ text: "still there", error: undefined });
			expect((await each.vanishing.state()).closed).toBe(false);
		},
	);

	it("leave nothing but the healthy ones' sockets", async () => {
		const sockets = async () => {
			const { stdout } = await lab.node.exec("ss", ["-Htna", "state", "all"]);
			return stdout.split("\n").filter((line) => line !== "" && !line.startsWith("LISTEN"));
		};
		await expect.poll(sockets, { timeout: 5000 }).toHaveLength(2 * RELAY_ENGINES.length);
	});
});

async function openRelays(
	lab: Lab,
	name: EngineName,
	client: Agent,
	outside: Agent,
): Promise<Relays> {
	const endpoints = ["10.2.1.2:8080", "10.2.2.2:8080", "10.2.3.2:8080", "10.2.1.2:8081"];
	const engine = startDaemon({ in: lab.node, flags: [], program: [ENGINE, name, ...endpoints] });
	await engine.ready();
	const ready = engine.logs.find(({ msg }) => msg === "ready")?.["proxyPorts"];
	const [echo1, echo2, silent3, download1] = Array.isArray(ready) ? ready.map(Number) : [];
	const address = lab.node.ipv4;
	const connect = (agent: Agent, port = 0) => agent.connect({ address, port });
	const idle = async (agent: Agent, port?: number) => {
		const connection = await connect(agent, port);
		await connection.write("hello");
		expect(await connection.read(5)).toMatchObject({ text: "hello" });
		return connection;
	};
	const sending = await connect(outside, silent3);
	expect(await sending.write({ bytes: TOO_MUCH_BYTES }, 500)).toBe(false);
	const receiving = await connect(outside, download1);
	expect(await receiving.read(1)).toMatchObject({ closed: false, error: undefined });
	return {
		engine,
		vanishing: await idle(client, echo1),
		orphaned: await idle(outside, echo2),
		healthy: await idle(outside, echo1),
		sending,
		receiving,
	};
}
