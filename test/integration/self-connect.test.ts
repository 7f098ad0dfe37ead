import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { createLab, type Lab, labProblem } from "../kit/lab.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";

const ENGINE = fileURLToPath(new URL("../kit/engine-stand-in.ts", import.meta.url));

/** An endpoint of the node itself, in the range that local ports are taken from. Nobody listens. */
const PORT = 40_000;

/**
 * The kernel may choose the very port that is dialed as the local one; the socket is then connected
 * to itself, and whoever writes to it reads his own bytes.
 */
describe.skipIf(labProblem() !== undefined)(
	"an endpoint of the node at which nobody listens",
	() => {
		let lab: Lab;
		const engines = new Map<string, DaemonProcess>();
		beforeAll(async () => {
			lab = await createLab({ endpoints: 0 });
			for (const name of RELAY_ENGINES) {
				const program = [ENGINE, name, `${lab.node.ipv4}:${PORT}`];
				engines.set(name, startDaemon({ in: lab.node, flags: [], program }));
			}
			await Promise.all([...engines.values()].map((engine) => engine.ready()));
			// One chance in two, instead of one in 28,000.
			await lab.node.sysctl({ "net.ipv4.ip_local_port_range": `${PORT} ${PORT + 1}` });
		});
		afterAll(async () => {
			await lab.close();
		});

		it.each(RELAY_ENGINES)(
			"refuses every client, and %s answers nobody with his own bytes",
			async (name) => {
				const engine = engines.get(name) ?? expect.unreachable("not started");
				const ready = engine.logs.find(({ msg }) => msg === "ready")?.["proxyPorts"];
				const [port] = Array.isArray(ready) ? ready.map(Number) : [];
				const client = await lab.client.agent();
				const results = await client.tcp({
					address: lab.node.ipv4,
					port: port ?? 0,
					count: 40,
					send: "echo?",
					after: "read",
				});
				expect(tally(results)).toEqual({ ECONNRESET: 40 });
				const ends = engine.logs.filter(({ msg }) => msg === "connection").map(({ end }) => end);
				expect(new Set(ends)).toEqual(new Set(["unreachable"]));
			},
		);
	},
);
