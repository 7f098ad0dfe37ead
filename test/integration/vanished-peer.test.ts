import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import type { RemoteConnection } from "../kit/agent.ts";
import { type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { createLab, type Lab, labProblem } from "../kit/lab.ts";

const ENGINE = fileURLToPath(new URL("../kit/engine-stand-in.ts", import.meta.url));

/** Keepalive: 15 s of silence, then ten questions a second apart; and some more for a busy machine. */
const KEEPALIVE_MS = 40_000;

/** Peers whose link goes down send no FIN and no RST: only keepalive can find out. */
describe.skipIf(labProblem() !== undefined)("idle relays when links go down", () => {
	let lab: Lab;
	let engine: DaemonProcess;
	/** From the client to ep1, from outside to ep2, from outside to ep1. */
	let relays: {
		vanishing: RemoteConnection;
		orphaned: RemoteConnection;
		healthy: RemoteConnection;
	};

	beforeAll(async () => {
		lab = await createLab({ endpoints: 2 });
		for (const endpoint of lab.endpoints) {
			// oxlint-disable-next-line no-await-in-loop -- two of them
			await (await endpoint.agent()).serveTcp({ mode: "echo", name: endpoint.role, port: 8080 });
		}
		const program = [ENGINE, ...lab.endpoints.map(({ ipv4 }) => `${ipv4}:8080`)];
		engine = startDaemon({ in: lab.node, flags: [], program });
		await engine.ready();
		const ready = engine.logs.find(({ msg }) => msg === "ready")?.["proxyPorts"];
		const [first, second] = Array.isArray(ready) ? ready.map(Number) : [];
		const address = lab.node.ipv4;
		const [client, outside] = await Promise.all([lab.client.agent(), lab.outside.agent()]);
		const open = async (agent: typeof client, port = 0) => {
			const connection = await agent.connect({ address, port });
			await connection.write("hello");
			expect(await connection.read(5)).toMatchObject({ text: "hello" });
			return connection;
		};
		relays = {
			vanishing: await open(client, first),
			orphaned: await open(outside, second),
			healthy: await open(outside, first),
		};
	});
	afterAll(async () => {
		await lab.close();
	});

	/** TCP connections of the node's namespace, however far they have come. */
	async function sockets(): Promise<string[]> {
		const { stdout } = await lab.node.exec("ss", ["-Htna", "state", "all"]);
		return stdout.split("\n").filter((line) => line !== "" && !line.startsWith("LISTEN"));
	}

	const connections = () => engine.logs.filter(({ msg }) => msg === "connection");

	it("both sockets of a client or endpoint that vanished go, and a healthy relay stays (case 9c, case 9f, case 25b)", async () => {
		expect(await sockets()).toHaveLength(6);
		await lab.client.ip("link", "set", "eth0", "down");
		await lab.endpoints[1]?.ip("link", "set", "eth0", "down");
		await expect.poll(() => connections().length, { timeout: KEEPALIVE_MS, interval: 250 }).toBe(2);

		const ends = new Map(connections().map(({ endpoint, end }) => [endpoint, end]));
		expect(ends).toEqual(
			new Map([
				["10.2.1.2:8080", "client-vanished"],
				["10.2.2.2:8080", "endpoint-vanished"],
			]),
		);
		await expect.poll(sockets, { timeout: 5000 }).toHaveLength(2);
		// The peer that is still there is told.
		expect(await relays.orphaned.read("closed")).toMatchObject({ error: "ECONNRESET" });
		await relays.healthy.write("still there");
		expect(await relays.healthy.read(16)).toMatchObject({ text: "still there", error: undefined });
		expect((await relays.vanishing.state()).closed).toBe(false);
	});
});
