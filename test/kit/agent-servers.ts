import { createHash } from "node:crypto";
import { createSocket, type Socket as DatagramSocket } from "node:dgram";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { formatSocketAddress } from "../../src/services/address.ts";
import { pattern } from "./agent-pattern.ts";
import type { ServerStats, ServeTcp, ServeUdp, TcpMode, UdpMode } from "./agent-protocol.ts";

/** One listening socket of the agent. */
export interface AgentServer {
	readonly port: number;
	stats(): ServerStats;
	/** Resolves when the port is free; `abruptly` resets the connections that it has, too. */
	close(abruptly: boolean): Promise<void>;
}

const MAX_CLIENTS_KEPT = 1000;

class Tally {
	received = 0;
	bytes = 0;
	readonly #clients: string[] = [];

	saw(address = "?", port = 0): void {
		this.received += 1;
		// A socket for both families shows IPv4 clients as IPv4-mapped.
		this.#clients.push(formatSocketAddress(address.replace("::ffff:", ""), port));
		if (this.#clients.length > MAX_CLIENTS_KEPT) this.#clients.shift();
	}

	stats(open: number): ServerStats {
		return { received: this.received, open, bytes: this.bytes, clients: this.#clients };
	}
}

export async function serveTcp(options: ServeTcp): Promise<AgentServer> {
	const tally = new Tally();
	const sockets = new Set<Socket>();
	const accept = (socket: Socket) => {
		socket.on("error", () => {});
		sockets.add(socket);
		socket.once("close", () => sockets.delete(socket));
		tally.saw(socket.remoteAddress, socket.remotePort);
	};
	const server =
		options.mode === "http" ? httpServer(options.name) : plainServer(options, options.mode, tally);
	server.on("connection", accept);
	const { address: host, port } = options;
	server.listen({ port, backlog: 4096, ...(host === undefined ? {} : { host }) });
	await once(server, "listening");
	server.on("error", () => {});
	const address = server.address();
	return {
		port: address !== null && typeof address === "object" ? address.port : options.port,
		stats: () => tally.stats(sockets.size),
		close: async (abruptly) => {
			const closed = once(server, "close");
			server.close();
			if (!abruptly) return;
			for (const socket of sockets) socket.resetAndDestroy();
			await closed;
		},
	};
}

function httpServer(name: string): Server {
	return createHttpServer((request, response) => {
		if (request.method === "POST") {
			request.pipe(response);
			return;
		}
		request.resume();
		response.end(name);
	});
}

function plainServer(options: ServeTcp, mode: Exclude<TcpMode, "http">, tally: Tally): Server {
	const behave = behaviours[mode];
	return createServer(
		{ allowHalfOpen: true, noDelay: true, pauseOnConnect: mode === "silent" },
		(socket) => {
			if (mode !== "silent") {
				socket.on("data", (chunk: Buffer) => {
					tally.bytes += chunk.length;
				});
			}
			behave(socket, options);
		},
	);
}

type Behaviour = (socket: Socket, options: ServeTcp) => void;

const behaviours: Readonly<Record<Exclude<TcpMode, "http">, Behaviour>> = {
	greet: (socket, { name }) => {
		socket.end(`${name}\n`);
	},
	echo: (socket) => {
		socket.pipe(socket);
	},
	upload: (socket, { name }) => {
		const hash = createHash("sha256");
		let bytes = 0;
		socket.on("data", (chunk: Buffer) => {
			hash.update(chunk);
			bytes += chunk.length;
		});
		socket.once("end", () => socket.end(`${name} ${bytes} ${hash.digest("hex")}\n`));
	},
	download: (socket, { bytes = 0 }) => {
		socket.end(pattern(bytes));
	},
	farewell: (socket, { name }) => {
		socket.end(`${name}\n`);
	},
	sink: (socket) => {
		socket.once("end", () => socket.end());
	},
	silent: () => {},
	reset: (socket) => {
		socket.once("data", () => socket.resetAndDestroy());
	},
};

export async function serveUdp(options: ServeUdp): Promise<AgentServer> {
	const tally = new Tally();
	const address = options.address ?? "0.0.0.0";
	const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
	socket.on("message", (message, from) => {
		tally.saw(from.address, from.port);
		tally.bytes += message.length;
		const answer = datagramAnswer(options.mode, options.name, message);
		if (answer !== undefined) socket.send(answer, from.port, from.address, () => {});
	});
	await bound(socket, options.port, address);
	socket.on("error", () => {});
	return {
		port: socket.address().port,
		stats: () => tally.stats(0),
		close: async () => {
			socket.close();
			await once(socket, "close");
		},
	};
}

function datagramAnswer(mode: UdpMode, name: string, message: Buffer): Buffer | undefined {
	switch (mode) {
		case "name":
			return Buffer.from(name);
		case "echo":
			return message;
		case "sink":
			return undefined;
	}
}

async function bound(socket: DatagramSocket, port: number, address: string): Promise<void> {
	socket.bind(port, address);
	await once(socket, "listening");
}
