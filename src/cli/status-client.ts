import { type ClientRequest, get, type IncomingMessage } from "node:http";
import type { ListenAddress } from "../config/config.ts";
import { formatListenAddress } from "../config/listen-address.ts";
import { describeError, errorCode, UserProxyError } from "../shared/errors.ts";

/** For an answer to begin, in milliseconds: the daemon answers from memory. */
const ANSWER_TIMEOUT_MS = 5_000;

/** 10,000 connections make 2 MB, 10,000 ServicePorts 10 MB. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

/** One connection's event has at most some kB. */
const MAX_LINE_BYTES = 1024 * 1024;

/** The daemon could not be asked; the message says what to do. */
export class StatusError extends UserProxyError {
	readonly code = "STATUS_UNAVAILABLE";
	readonly retriable = true;
}

/**
 * Asks the running daemon for JSON.
 *
 * @returns the text, not yet parsed.
 * @throws {StatusError} if nobody answers there, or not as the daemon does.
 */
export async function fetchStatus(
	address: ListenAddress,
	path: string,
	signal: AbortSignal,
): Promise<string> {
	const response = await open(address, path, signal);
	const chunks: Buffer[] = [];
	let bytes = 0;
	try {
		for await (const chunk of response as AsyncIterable<Buffer>) {
			bytes += chunk.length;
			if (bytes > MAX_ANSWER_BYTES) throw strange(address, "the answer is far too long");
			chunks.push(chunk);
		}
	} catch (error) {
		throw error instanceof StatusError ? error : unreachable(address, error);
	}
	return Buffer.concat(chunks).toString("utf8");
}

/**
 * Reads an endless answer line by line, until the daemon or the signal ends it.
 *
 * @throws {StatusError} as {@link fetchStatus}; not for the signal.
 */
export async function* watchStatus(
	address: ListenAddress,
	path: string,
	signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
	try {
		const response = await open(address, path, signal);
		response.setEncoding("utf8");
		let rest = "";
		for await (const chunk of response as AsyncIterable<string>) {
			const lines = (rest + chunk).split("\n");
			rest = lines.pop() ?? "";
			if (rest.length > MAX_LINE_BYTES) throw strange(address, "a line is far too long");
			yield* lines;
		}
	} catch (error) {
		if (signal.aborted) return;
		throw error instanceof StatusError ? error : unreachable(address, error);
	}
}

async function open(
	address: ListenAddress,
	path: string,
	signal: AbortSignal,
): Promise<IncomingMessage> {
	const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
	const request: ClientRequest = get(
		{ host: address.address, port: address.port, path, agent: false, signal },
		resolve,
	);
	request.on("error", reject);
	const timer = setTimeout(
		() => request.destroy(new Error(`no answer within ${ANSWER_TIMEOUT_MS / 1000} s`)),
		ANSWER_TIMEOUT_MS,
	);
	let response: IncomingMessage;
	try {
		response = await promise;
	} catch (error) {
		throw unreachable(address, error);
	} finally {
		clearTimeout(timer);
	}
	if (response.statusCode === 200) return response;
	response.destroy();
	if (response.statusCode === 404) {
		throw strange(address, `it knows no ${path.split("?")[0]}: is it kube-proxy's own port?`);
	}
	throw strange(address, `status ${response.statusCode}`);
}

function unreachable(address: ListenAddress, error: unknown): StatusError {
	const where = formatListenAddress(address);
	return errorCode(error) === "ECONNREFUSED"
		? new StatusError(
				`No daemon answers on ${where}: is kube-userproxy running on this host, and with that --metrics-bind-address? (--status-address IP:PORT for another)`,
			)
		: new StatusError(`Cannot ask the daemon on ${where}: ${describeError(error)}`);
}

function strange(address: ListenAddress, why: string): StatusError {
	return new StatusError(
		`What answers on ${formatListenAddress(address)} is no kube-userproxy: ${why}`,
	);
}
