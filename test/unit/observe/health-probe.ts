import { connect, createServer, type Server, type Socket } from "node:net";
import { expect, vi } from "vitest";

/** Sends a request as it is; all that comes until the end. */
export async function send(address: string, port: number, text: string): Promise<string> {
	const socket = connect(port, address).setEncoding("utf8");
	socket.write(text);
	return (await socket.toArray()).join("");
}

export async function ask(address: string, port: number): Promise<string> {
	return await send(address, port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
}

export async function statusOf(address: string, port: number): Promise<number> {
	return Number(/^HTTP\/1\.1 (\d+)/.exec(await ask(address, port))?.[1]);
}

/** The code of the error with which connecting fails; undefined when it does not. */
export async function refusalAt(address: string, port: number): Promise<string | undefined> {
	const socket = connect(port, address);
	return await new Promise<string | undefined>((resolve) => {
		socket.on("connect", () => resolve(undefined));
		socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code));
	}).finally(() => socket.destroy());
}

/** Resolves when somebody listens there. */
export async function served(address: string, port: number): Promise<void> {
	await vi.waitFor(async () => expect(await refusalAt(address, port)).toBeUndefined());
}

/** A connection; destroy it in the end. */
export async function opened(address: string, port: number): Promise<Socket> {
	const socket = connect(port, address);
	socket.on("error", () => {});
	await new Promise((resolve) => socket.once("connect", resolve));
	return socket;
}

/** Somebody else who has the port; close it in the end. */
export async function aServerAt(address: string, port: number): Promise<Server> {
	const server = createServer((socket) => socket.destroy());
	await new Promise<void>((resolve) => server.listen(port, address, resolve));
	return server;
}
