import { createHash, type Hash } from "node:crypto";
import { createSocket, type Socket as DatagramSocket } from "node:dgram";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { formatSocketAddress } from "../../src/services/address.ts";
import { pattern } from "./agent-pattern.ts";
import type { HttpAnswer, TcpResult, TcpTraffic, UdpResult, UdpTraffic } from "./agent-protocol.ts";

const MAX_COUNT = 20_000;
const MAX_CONCURRENCY = 500;
const MAX_TIMEOUT_MS = 60_000;
export const MAX_TEXT = 1000;

/**
 * Source ports of UDP, one after the other and below those that the kernel chooses from: it may give a port again within
 * seconds, and who comes from the port of a flow that lives is that flow's client.
 */
const FIRST_UDP_PORT = 12_000;
const UDP_PORTS = 8_000;
/** Agents of one namespace begin at different places. */
let nextUdpPort = (process.pid * 100) % UDP_PORTS;

/** Makes the connections, at most `concurrency` at once; one result each, in the order of starting. */
export async function tcpTraffic(traffic: TcpTraffic): Promise<TcpResult[]> {
	const count = bounded("count", traffic.count ?? 1, MAX_COUNT);
	const concurrency = bounded("concurrency", traffic.concurrency ?? 1, MAX_CONCURRENCY);
	const results: TcpResult[] = [];
	let next = 0;
	const worker = async () => {
		while (next < count) {
			const index = next;
			next += 1;
			// oxlint-disable-next-line no-await-in-loop -- one at a time is what a worker is
			results[index] = await tcpOnce(traffic);
		}
	};
	await Promise.all(Array.from({ length: Math.min(concurrency, count) }, worker));
	return results;
}

function tcpOnce(traffic: TcpTraffic): Promise<TcpResult> {
	const { address, port, localAddress } = traffic;
	const timeoutMs = bounded("timeoutMs", traffic.timeoutMs ?? 5000, MAX_TIMEOUT_MS);
	const startedAt = performance.now();
	return new Promise((resolve) => {
		const socket = connect({
			host: address,
			port,
			allowHalfOpen: true,
			noDelay: true,
			...(localAddress === undefined ? {} : { localAddress }),
		});
		const answer = new Answer();
		let error: string | undefined;
		let connected = false;
		let localPort: number | undefined;
		socket.on("error", (cause: NodeJS.ErrnoException) => {
			error ??= cause.code ?? cause.message;
		});
		const timer = setTimeout(() => {
			error ??= "TIMEOUT";
			socket.destroy();
		}, timeoutMs);
		socket.once("connect", () => {
			connected = true;
			localPort = socket.localPort;
			send(socket, traffic);
		});
		socket.on("data", (chunk: Buffer) => {
			answer.add(chunk);
			if (typeof traffic.after === "number" && answer.bytes >= traffic.after) socket.destroy();
		});
		socket.once("end", () => socket.end());
		socket.once("close", () => {
			clearTimeout(timer);
			const ms = elapsedMs(startedAt);
			resolve({ ...answer.result(), error, connected, ms, localPort });
		});
	});
}

function send(
	socket: Socket,
	{ send: text = "", sendBytes = 0, after = "half-close" }: TcpTraffic,
) {
	if (after === "connect") {
		socket.destroy();
		return;
	}
	const payload = Buffer.concat([Buffer.from(text), pattern(sendBytes)]);
	if (after === "half-close") socket.end(payload);
	else if (after === "reset") socket.write(payload, () => socket.resetAndDestroy());
	else if (payload.length > 0) socket.write(payload);
}

/** Sends datagrams one after the other, each once the one before was answered or given up. */
export async function udpTraffic(traffic: UdpTraffic): Promise<UdpResult[]> {
	const count = bounded("count", traffic.count ?? 1, MAX_COUNT);
	const results: UdpResult[] = [];
	let socket: DatagramSocket | undefined;
	try {
		for (let index = 0; index < count; index += 1) {
			if (index > 0 && traffic.pauseMs !== undefined) await sleep(traffic.pauseMs);
			socket ??= await openUdp(traffic, index);
			results.push(await udpOnce(socket, traffic));
			if (traffic.socketEach === true) {
				socket.close();
				socket = undefined;
			}
		}
	} finally {
		socket?.close();
	}
	return results;
}

async function bindSomewhere(family: "udp4" | "udp6"): Promise<DatagramSocket> {
	for (let tries = 0; tries < UDP_PORTS; tries += 1) {
		const port = FIRST_UDP_PORT + nextUdpPort;
		nextUdpPort = (nextUdpPort + 1) % UDP_PORTS;
		try {
			return await bindUdp(family, port);
		} catch (error) {
			if (!(error instanceof Error && "code" in error && error.code === "EADDRINUSE")) throw error;
		}
	}
	throw new Error(`all of ${UDP_PORTS} ports from ${FIRST_UDP_PORT} on are in use`);
}

async function bindUdp(family: "udp4" | "udp6", port: number): Promise<DatagramSocket> {
	const socket = createSocket(family);
	await new Promise<void>((resolve, reject) => {
		socket.once("error", (error) => {
			socket.close();
			reject(error);
		});
		socket.bind(port, () => resolve());
	});
	socket.removeAllListeners("error");
	return socket;
}

async function openUdp({ address, port, localPort, connected }: UdpTraffic, index: number) {
	const family = address.includes(":") ? "udp6" : "udp4";
	const socket = await (localPort === undefined
		? bindSomewhere(family)
		: bindUdp(family, localPort + index));
	if (connected !== true) return socket;
	await new Promise<void>((resolve, reject) => {
		socket.connect(port, address, (error?: Error) => (error ? reject(error) : resolve()));
	});
	return socket;
}

function udpOnce(socket: DatagramSocket, traffic: UdpTraffic): Promise<UdpResult> {
	const { address, port, connected } = traffic;
	const payload =
		traffic.sendBytes === undefined
			? Buffer.from(traffic.send ?? "?")
			: pattern(bounded("sendBytes", traffic.sendBytes, 65_507));
	const timeoutMs = bounded("timeoutMs", traffic.timeoutMs ?? 1000, MAX_TIMEOUT_MS);
	const startedAt = performance.now();
	return new Promise((resolve) => {
		const answer = new Answer();
		const done = (from: string | undefined, error: string | undefined) => {
			clearTimeout(timer);
			socket.removeListener("message", onMessage);
			socket.removeListener("error", onError);
			socket.on("error", () => {});
			const ms = elapsedMs(startedAt);
			resolve({ ...answer.result(), from, error, ms, localPort: socket.address().port });
		};
		const onMessage = (message: Buffer, from: { address: string; port: number }) => {
			answer.add(message);
			done(formatSocketAddress(from.address, from.port), undefined);
		};
		const onError = (cause: NodeJS.ErrnoException) => done(undefined, cause.code ?? cause.message);
		const timer = setTimeout(() => done(undefined, "TIMEOUT"), timeoutMs);
		socket.once("message", onMessage);
		socket.removeAllListeners("error");
		socket.once("error", onError);
		const sent = (error: Error | null) => {
			if (error !== null) onError(error);
		};
		if (connected === true) socket.send(payload, sent);
		else socket.send(payload, port, address, sent);
	});
}

export async function httpGet(options: {
	readonly url: string;
	readonly method?: string;
	readonly body?: string;
	readonly timeoutMs?: number;
}): Promise<HttpAnswer> {
	const response = await fetch(options.url, {
		method: options.method ?? "GET",
		signal: AbortSignal.timeout(options.timeoutMs ?? 5000),
		...(options.body === undefined ? {} : { body: options.body }),
	});
	return {
		status: response.status,
		contentType: response.headers.get("content-type") ?? "",
		body: await response.text(),
	};
}

/** To a tenth of a millisecond. */
function elapsedMs(startedAt: number): number {
	return Math.round((performance.now() - startedAt) * 10) / 10;
}

/** What came back: counted and hashed whole, the text kept to a bound. */
export class Answer {
	bytes = 0;
	readonly #hash: Hash = createHash("sha256");
	#text = "";

	add(chunk: Buffer): void {
		this.bytes += chunk.length;
		this.#hash.update(chunk);
		if (this.#text.length < MAX_TEXT) {
			this.#text = (this.#text + chunk.toString("latin1")).slice(0, MAX_TEXT);
		}
	}

	/** The text since the last call. */
	takeText(): string {
		const text = this.#text;
		this.#text = "";
		return text;
	}

	sha256(): string {
		return this.#hash.copy().digest("hex");
	}

	result(): { answer: string; bytes: number; sha256: string | undefined } {
		return {
			answer: this.#text.replace(/\r?\n$/, ""),
			bytes: this.bytes,
			sha256: this.bytes === 0 ? undefined : this.sha256(),
		};
	}
}

export function bounded(name: string, value: number, max: number): number {
	if (!Number.isInteger(value) || value < 0 || value > max) {
		throw new RangeError(`Cannot make traffic: wanted ${name} in 0..${max}, got ${value}`);
	}
	return value;
}
