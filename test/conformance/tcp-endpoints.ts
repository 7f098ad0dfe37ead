import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { Worker } from "node:worker_threads";

import type { Endpoint } from "../../src/services/service-port.ts";
import { anEndpointAt } from "../unit/proxies/builders.ts";

/** A server on loopback that stands for a Pod. */
export class TestEndpoint {
	readonly endpoint: Endpoint;
	/** Connections that it has accepted and that are open, in order. */
	readonly sockets = new Set<Socket>();
	accepted = 0;
	readonly #server: Server;

	private constructor(server: Server, endpoint: Endpoint) {
		this.#server = server;
		this.endpoint = endpoint;
	}

	/** @param serve called with each connection; unread, and with an `error` listener. */
	static async open(
		serve: (socket: Socket) => void,
		{ host = "127.0.0.1", port = 0 } = {},
	): Promise<TestEndpoint> {
		const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
		server.listen({ host, port });
		await once(server, "listening");
		const bound = server.address();
		if (bound === null || typeof bound === "string") throw new TypeError("No port");
		const self = new TestEndpoint(server, anEndpointAt(host, bound.port, `pod-${bound.port}`));
		server.on("connection", (socket) => {
			self.accepted += 1;
			self.sockets.add(socket);
			socket.on("error", () => {});
			socket.on("close", () => self.sockets.delete(socket));
			serve(socket);
		});
		return self;
	}

	async close(): Promise<void> {
		for (const socket of this.sockets) socket.destroy();
		if (!this.#server.listening) return;
		this.#server.close();
		await once(this.#server, "close");
	}
}

/** An endpoint at which nobody listens. */
export async function aRefusingEndpoint(): Promise<Endpoint> {
	const server = await TestEndpoint.open(() => {});
	await server.close();
	return server.endpoint;
}

/**
 * An endpoint that answers no SYN: it listens, nobody accepts, and its queue is full, so that the
 * kernel drops what comes.
 */
export class SilentEndpoint {
	readonly endpoint: Endpoint;
	readonly #worker: Worker;
	readonly #fillers: readonly Socket[];

	private constructor(endpoint: Endpoint, worker: Worker, fillers: readonly Socket[]) {
		this.endpoint = endpoint;
		this.#worker = worker;
		this.#fillers = fillers;
	}

	static async open(): Promise<SilentEndpoint> {
		const worker = new Worker(
			`const { parentPort } = require("node:worker_threads");
			const server = require("node:net").createServer();
			server.listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => {
				parentPort.postMessage(server.address().port);
				// Its loop never turns again, so that it never accepts.
				setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
			});`,
			{ eval: true },
		);
		const [port]: unknown[] = await once(worker, "message");
		if (typeof port !== "number") throw new TypeError("The worker did not tell its port");
		const fillers: Socket[] = [];
		// Linux takes one more than the backlog; eight are far more than enough.
		while (fillers.length < 8 && (await connects(port, fillers)));
		return new SilentEndpoint(anEndpointAt("127.0.0.1", port, "pod-silent"), worker, fillers);
	}

	async close(): Promise<void> {
		for (const socket of this.#fillers) socket.destroy();
		await this.#worker.terminate();
	}
}

/** Adds a connection to `sockets`; false when none came about within a time that is ample here. */
async function connects(port: number, sockets: Socket[]): Promise<boolean> {
	const socket = connect({ host: "127.0.0.1", port });
	socket.on("error", () => {});
	sockets.push(socket);
	return await new Promise((resolve) => {
		// A loop that was late runs timers before it looks at sockets.
		const timer = setTimeout(() => setImmediate(() => resolve(false)), 200);
		socket.once("connect", () => {
			clearTimeout(timer);
			resolve(true);
		});
	});
}
