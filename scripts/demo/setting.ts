import { fileURLToPath } from "node:url";
import type { StatusReport } from "../../src/services/status.ts";
import type { Agent } from "../../test/kit/agent.ts";
import type { TcpResult } from "../../test/kit/agent-protocol.ts";
import { type DaemonProcess, startDaemon } from "../../test/kit/daemon-process.ts";
import { createLab, type Lab } from "../../test/kit/lab.ts";

export const EXAMPLES = fileURLToPath(new URL("../../examples/", import.meta.url));

/** The Services of examples/, as a client knows them. */
export const WEB = { name: "default/web:http", address: "10.96.0.10", port: 80 } as const;
export const NAMES = { name: "default/names:dns", address: "10.96.0.53", port: 53 } as const;
export const CART = { name: "default/cart:http", address: "10.96.0.20", port: 80 } as const;

/** Ports that the endpoints of examples/ listen on. */
export const WEB_PORT = 8080;
export const NAMES_PORT = 5353;

/** Where it all takes place. */
export interface Setting {
	readonly lab: Lab;
	readonly client: Agent;
	readonly daemon: DaemonProcess;
}

/** Builds the lab and starts the servers on its three endpoints. */
export async function buildLab(): Promise<Lab> {
	const lab = await createLab({ endpoints: 3 });
	try {
		await Promise.all(["ep1", "ep2", "ep3"].map((name) => startEndpoint(lab, name)));
		return lab;
	} catch (error) {
		await lab.close();
		throw error;
	}
}

/** Starts an endpoint's servers, both of which answer with its name. */
export async function startEndpoint(lab: Lab, name: string): Promise<void> {
	const agent = await endpointAgent(lab, name);
	await agent.serveTcp({ mode: "http", name, port: WEB_PORT });
	await agent.serveUdp({ mode: "name", name, port: NAMES_PORT });
}

export function endpointAgent(lab: Lab, name: string): Promise<Agent> {
	const endpoint = lab.endpoints.find(({ role }) => role === name);
	if (endpoint === undefined) throw new Error(`Cannot find the endpoint "${name}"`);
	return endpoint.agent();
}

export async function startShowDaemon(lab: Lab): Promise<Setting> {
	const daemon = startDaemon({ in: lab.node, flags: [`--manifests=${EXAMPLES}`] });
	await daemon.ready();
	return { lab, client: await lab.client.agent(), daemon };
}

export async function statusOf({ lab }: Setting): Promise<StatusReport> {
	const node = await lab.node.agent();
	const { body } = await node.get("http://127.0.0.1:10249/status");
	return JSON.parse(body) as StatusReport;
}

/** Who answered, or why nobody did. */
export interface Reply {
	readonly answer: string;
	readonly error: string | undefined;
}

/** HTTP requests, each on a connection of its own, as `curl` in a loop makes them. */
export async function request(
	client: Agent,
	to: { readonly address: string; readonly port: number },
	{ count = 1, concurrency = 1 } = {},
): Promise<Reply[]> {
	const send = `GET / HTTP/1.1\r\nHost: ${to.address}\r\nConnection: close\r\n\r\n`;
	const { address, port } = to;
	const results = await client.tcp({ address, port, count, concurrency, send, after: "read" });
	return results.map(toReply);
}

function toReply({ answer, error }: TcpResult): Reply {
	const [head = "", body = ""] = answer.split("\r\n\r\n");
	const answered = head.startsWith("HTTP/1.1 200 ");
	return {
		answer: answered ? body : "",
		error: error ?? (answered ? undefined : `no HTTP answer: ${head}`),
	};
}
