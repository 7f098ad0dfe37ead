import type { Socket } from "node:net";

/**
 * Ends a connection so that the peer sees a reset, whatever is still unsent. Idempotent; the socket
 * must have an `error` listener.
 */
export function resetSocket(socket: Socket): void {
	if (socket.destroyed) return;
	if (!isShuttingDown(socket)) {
		socket.resetAndDestroy();
		return;
	}
	// libuv refuses to reset while shutdown(2) is under way, and Node would then leak the
	// descriptor. Nothing is unsent at this point, so the shutdown is over in this turn of the loop.
	socket.once("finish", () => socket.resetAndDestroy());
}

function isShuttingDown(socket: Socket): boolean {
	return socket.writableEnded && socket.writableLength === 0 && !socket.writableFinished;
}
