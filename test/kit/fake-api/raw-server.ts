import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";

/** One request as far as a route needs it. */
export interface RawRequest {
	readonly path: string;
	readonly query: Readonly<Record<string, string>>;
	/** How often this path was asked for before, watches and others apart. */
	readonly nth: number;
}

/** Bytes to send as they are; "hang": nothing, with the connection open. */
export type Route = (request: RawRequest) => Uint8Array | "hang";

export interface RawServer {
	readonly url: string;
	readonly requests: readonly RawRequest[];
	stop(): Promise<void>;
}

/** Answers each request with recorded bytes, over TCP and without an HTTP library in between. */
export async function startRawServer(route: Route, chunkBytes = 1_024): Promise<RawServer> {
	const requests: RawRequest[] = [];
	const sockets = new Set<Socket>();
	const server = createServer((socket) => {
		socket.on("error", () => {});
		sockets.add(socket);
		socket.on("close", () => sockets.delete(socket));
		let head = "";
		socket.on("data", (data) => {
			head += data.toString("latin1");
			const end = head.indexOf("\r\n\r\n");
			if (end === -1) return;
			const request = parse(head, requests);
			head = head.slice(end + 4);
			requests.push(request);
			const answer = route(request);
			if (answer !== "hang") send(socket, answer, chunkBytes);
		});
	});
	server.on("error", () => {});
	await new Promise<void>((resolve) => {
		server.listen(0, "127.0.0.1", resolve);
	});
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server has no other
	const { port } = server.address() as AddressInfo;
	return {
		url: `http://127.0.0.1:${port}`,
		requests,
		stop: async () => {
			for (const socket of sockets) socket.destroy();
			await new Promise((resolve) => server.close(resolve));
		},
	};
}

function parse(head: string, before: readonly RawRequest[]): RawRequest {
	const url = new URL(head.split(" ")[1] ?? "/", "http://raw");
	const query = Object.fromEntries(url.searchParams);
	const same = before.filter(
		(other) => other.path === url.pathname && other.query["watch"] === query["watch"],
	);
	return { path: url.pathname, query, nth: same.length };
}

/** In small pieces, so that chunk heads, lines and characters are cut anywhere. */
function send(socket: Socket, bytes: Uint8Array, chunkBytes: number): void {
	socket.setNoDelay(true);
	for (let start = 0; start < bytes.length; start += chunkBytes) {
		socket.write(bytes.subarray(start, start + chunkBytes));
	}
}
