import { connect, type Socket } from "node:net";

import type { DialOutcome } from "../../services/connection-record.ts";
import type { Endpoint } from "../../services/service-port.ts";
import { errorCode } from "../../shared/errors.ts";
import { dialOutcomeOf } from "../dial-outcome.ts";
import { resetSocket } from "./reset-socket.ts";
import { SOCKET_OPTIONS } from "./socket-options.ts";

export type DialResult =
	| { readonly outcome: "connected"; readonly socket: Socket }
	| {
			readonly outcome: Exclude<DialOutcome, "connected" | "abandoned">;
			/** Undefined for a timeout of ours. */
			readonly errorCode: string | undefined;
	  };

export type Dial = typeof dial;

/**
 * Connects to one endpoint, once.
 *
 * @param onResult called once, never before this returns. A connected socket is the receiver's: it
 * must have an `error` listener of its own when `onResult` returns.
 * @returns gives the dial up; `onResult` is not called then. After the result it does nothing.
 */
export function dial(
	endpoint: Endpoint,
	timeoutMs: number,
	onResult: (result: DialResult) => void,
): () => void {
	const socket = connect({ host: endpoint.address, port: endpoint.port, ...SOCKET_OPTIONS });
	socket.on("error", onError);
	socket.on("connect", onConnect);
	// A loop that was late runs timers before it looks at sockets: what has come by then counts.
	let lastLook: NodeJS.Immediate | undefined;
	const timer = setTimeout(() => {
		lastLook = setImmediate(onTimeout);
	}, timeoutMs);
	let settled = false;

	function onConnect(): void {
		if (isConnectedToItself(socket, endpoint)) {
			// Not destroyed in order: its port is the endpoint's, which is not to wait for TIME_WAIT.
			resetSocket(socket);
			settle({ outcome: "refused", errorCode: "ECONNREFUSED" });
			return;
		}
		settle({ outcome: "connected", socket });
		// Only now: the receiver listens for errors, so that no moment is without a listener.
		socket.off("error", onError);
		socket.off("connect", onConnect);
	}
	function onError(error: Error): void {
		const code = errorCode(error);
		settle({ outcome: dialOutcomeOf(code), errorCode: code });
	}
	function onTimeout(): void {
		settle({ outcome: "timeout", errorCode: undefined });
	}
	function settle(result: DialResult): void {
		if (settled) return;
		giveUp(result.outcome === "connected");
		onResult(result);
	}
	function giveUp(keepSocket: boolean): void {
		settled = true;
		clearTimeout(timer);
		clearImmediate(lastLook);
		if (!keepSocket) socket.destroy();
	}
	return () => {
		if (!settled) giveUp(false);
	};
}

/** A dial that is not made, as if the endpoint had refused it with that code. */
export function refuse(code: string, onResult: (result: DialResult) => void): () => void {
	const turn = setImmediate(() => onResult({ outcome: "refused", errorCode: code }));
	return () => clearImmediate(turn);
}

/**
 * Where nobody listens at a port of this node, the kernel may choose that port as the local one: both
 * ends of the connection are then this socket, and the client would be answered with its own bytes.
 */
function isConnectedToItself(socket: Socket, { address, port }: Endpoint): boolean {
	return socket.localPort === port && socket.localAddress === address;
}
