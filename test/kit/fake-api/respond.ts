import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The TCP connection that a request came over. */
export function rawSocketOf(request: IncomingMessage): Socket {
	const http2 = streamOf(request);
	const socket = http2?.session?.socket ?? request.socket;
	return innerSocketOf(socket);
}

/** The server's "connection" event gives the TCP socket, a TLS connection hides it. */
function innerSocketOf(socket: Socket): Socket {
	const parent: unknown = Reflect.get(socket, "_parent");
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Node's own field
	return parent === undefined || parent === null ? socket : (parent as Socket);
}

interface Stream {
	destroy(): void;
	readonly session?: { readonly socket: Socket };
}

/** The HTTP/2 stream behind a request or response, or undefined for HTTP/1.1. */
function streamOf(message: IncomingMessage | ServerResponse): Stream | undefined {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- HTTP/2's classes have it
	return (message as { stream?: Stream }).stream;
}

/** Ends a response in the middle: the whole connection for HTTP/1.1, the stream for HTTP/2. */
export function breakOff(response: ServerResponse, reset: boolean): void {
	const stream = streamOf(response);
	if (stream !== undefined) {
		stream.destroy();
		return;
	}
	const socket = response.socket;
	if (socket === null) return;
	if (reset) innerSocketOf(socket).resetAndDestroy();
	else socket.destroy();
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
	response.writeHead(status, { "content-type": "application/json" });
	response.end(JSON.stringify(body));
}

type Headers = Record<string, string | number | string[] | undefined>;

/** A failure as API servers send it: a Status object. */
export function sendStatus(
	response: ServerResponse,
	code: number,
	reason: string,
	message: string,
	more: { readonly headers?: Headers | undefined; readonly cause?: string | undefined } = {},
): void {
	const { headers = {}, cause } = more;
	const details = cause === undefined ? {} : { details: { causes: [{ reason: cause }] } };
	const body = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" };
	response.writeHead(code, { "content-type": "application/json", ...headers });
	response.end(JSON.stringify({ ...body, message, reason, code, ...details }));
}
