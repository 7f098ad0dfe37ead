import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

import { onTestFinished } from "vitest";

/** Two ends of one connection over loopback, as relays have them; closed with the test. */
export async function aSocketPair(): Promise<{ near: Socket; far: Socket }> {
	const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
	server.listen({ host: "127.0.0.1", port: 0 });
	await once(server, "listening");
	const bound = server.address();
	if (bound === null || typeof bound === "string") throw new TypeError("No port");
	const near = connect({ host: "127.0.0.1", port: bound.port, allowHalfOpen: true });
	const [far]: unknown[] = await once(server, "connection");
	await once(near, "connect");
	server.close();
	onTestFinished(() => {
		for (const socket of [near, far]) if (isSocket(socket)) socket.destroy();
	});
	if (!isSocket(far)) throw new TypeError("No socket");
	far.on("error", () => {});
	return { near, far };
}

function isSocket(value: unknown): value is Socket {
	return value instanceof Object && "destroy" in value && "remotePort" in value;
}

export function systemError(code: string): Error {
	return Object.assign(new Error(code), { code });
}

/** Resolves when the socket is closed, whatever closed it. */
export function closed(socket: Socket): Promise<void> {
	return new Promise((resolve) => {
		socket.on("close", () => resolve());
	});
}
