import { flushCompileCache } from "node:module";
import { createInterface } from "node:readline";
import { httpGet, tcpTraffic, udpTraffic } from "./agent-clients.ts";
import { HeldConnection } from "./agent-connection.ts";
import type { AgentCommands, AgentReply, AgentRequest, CommandName } from "./agent-protocol.ts";
import { type AgentServer, serveTcp, serveUdp } from "./agent-servers.ts";

/**
 * The traffic agent: a process inside a namespace that makes and answers traffic as it is told, one
 * JSON request a line on stdin, one JSON reply a line on stdout. Ends when stdin does.
 *
 * `node agent-main.ts serve '[{"protocol":"tcp",…}]'` instead only serves, until it is killed: for a
 * lab that is to outlive the program that made it.
 */
const servers = new Map<number, AgentServer>();
const connections = new Map<number, HeldConnection>();
let lastHandle = 0;

type Handlers = {
	[Name in CommandName]: (
		takes: AgentCommands[Name]["takes"],
	) => Promise<AgentCommands[Name]["gives"]>;
};

const handlers: Handlers = {
	serveTcp: async (takes) => keepServer(await serveTcp(takes)),
	serveUdp: async (takes) => keepServer(await serveUdp(takes)),
	serverStats: async ({ server }) => found(servers, server).stats(),
	closeServer: async ({ server, abruptly }) => {
		await found(servers, server).close(abruptly);
		servers.delete(server);
		return {};
	},
	forget: async () => {
		await Promise.all([...connections.values()].map((connection) => connection.finish("destroy")));
		connections.clear();
		await Promise.all([...servers.values()].map((server) => server.close(true)));
		servers.clear();
		return {};
	},
	tcp: tcpTraffic,
	udp: udpTraffic,
	httpGet,
	open: async (takes) => {
		const connection = new HeldConnection(takes);
		await connection.opened(takes.timeoutMs);
		lastHandle += 1;
		connections.set(lastHandle, connection);
		return { connection: lastHandle };
	},
	write: ({ connection, send, sendBytes, timeoutMs }) =>
		found(connections, connection).write(send, sendBytes, timeoutMs),
	read: ({ connection, until, timeoutMs }) => found(connections, connection).read(until, timeoutMs),
	state: async ({ connection }) => found(connections, connection).state(),
	finish: ({ connection, how }) => found(connections, connection).finish(how),
};

function keepServer(server: AgentServer): { server: number; port: number } {
	lastHandle += 1;
	servers.set(lastHandle, server);
	return { server: lastHandle, port: server.port };
}

function found<T>(handles: ReadonlyMap<number, T>, handle: number): T {
	const value = handles.get(handle);
	if (value === undefined) throw new Error(`Cannot find handle ${handle}: closed already`);
	return value;
}

async function answer(line: string): Promise<void> {
	const request = JSON.parse(line) as AgentRequest;
	try {
		const handle = handlers[request.command] as (takes: unknown) => Promise<unknown>;
		reply({ id: request.id, gives: await handle(request.takes) });
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		reply({ id: request.id, failed: error instanceof Error ? error.message : String(error), code });
	}
}

function reply(message: AgentReply): void {
	process.stdout.write(`${JSON.stringify(message)}\n`);
}

if (process.argv[2] === "serve") {
	const wanted = JSON.parse(process.argv[3] ?? "[]") as readonly (
		| ({ protocol: "tcp" } & Parameters<typeof serveTcp>[0])
		| ({ protocol: "udp" } & Parameters<typeof serveUdp>[0])
	)[];
	for (const one of wanted) {
		// oxlint-disable-next-line no-await-in-loop -- two or three, in order
		keepServer(await (one.protocol === "tcp" ? serveTcp(one) : serveUdp(one)));
	}
} else {
	// The test that asked is gone when the pipe is: nobody to tell.
	process.stdout.on("error", () => process.exit(0));
	const lines = createInterface({ input: process.stdin });
	lines.on("line", (line) => void answer(line));
	lines.once("close", () => process.exit(0));
	reply({ id: 0, gives: "ready" });
	// Node itself would do so at the end, and most agents end by SIGKILL.
	flushCompileCache();
}
