import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { connect, type Socket } from "node:net";

import { expect } from "vitest";
import type {
	EngineHooks,
	PreferredPorts,
	ReconcileOutcome,
	RelayEngine,
} from "../../src/proxies/engine.ts";
import type { ServiceCounts } from "../../src/services/connection-counts.ts";
import type { ConnectionRecord } from "../../src/services/connection-record.ts";
import type { Port } from "../../src/services/port.ts";
import type { ServicePort } from "../../src/services/service-port.ts";
import type { Log } from "../../src/shared/log.ts";
import { aLog, aServicePort, type ServicePortParts } from "../unit/proxies/builders.ts";
import { SilentEndpoint, TestEndpoint } from "./tcp-endpoints.ts";

/** What the suite needs to say to an engine. */
export interface TcpConformanceOptions {
	readonly hooks: EngineHooks;
	readonly log: Log;
	readonly dialTimeoutsMs: readonly number[];
	readonly halfCloseIdleMs: number;
	readonly portRange: { readonly first: Port; readonly last: Port } | undefined;
	readonly preferredPorts: PreferredPorts;
	/** Clients that session affinity remembers; undefined: as many as usual. */
	readonly maxAffinityClients: number | undefined;
	/** File descriptors that the engine may think the process has; undefined: what it has. */
	readonly descriptorLimit: number | undefined;
}

export type CreateEngine = (options: TcpConformanceOptions) => RelayEngine;

/** A wait that lasts so long on loopback has failed. */
const PATIENCE_MS = 10_000;

/** One engine with everything around it, and what is to be closed after the test. */
export class TcpLab {
	readonly engine: RelayEngine;
	readonly records: ConnectionRecord[] = [];
	readonly log = aLog();
	readonly counted: ServiceCounts[] = [];
	starts = 0;
	readonly #openBefore = openDescriptors();
	readonly #clients: Socket[] = [];
	readonly #endpoints: { close(): Promise<void> }[] = [];

	constructor(createEngine: CreateEngine, options: Partial<TcpConformanceOptions> = {}) {
		this.engine = createEngine({
			hooks: {
				onConnectionStart: () => {
					this.starts += 1;
				},
				onConnectionEnd: (record) => this.records.push(record),
				onCounted: (counts) => this.counted.push(counts),
			},
			log: this.log.log,
			dialTimeoutsMs: [250, 500, 1000, 2000],
			halfCloseIdleMs: 60_000,
			portRange: undefined,
			preferredPorts: new Map(),
			maxAffinityClients: undefined,
			descriptorLimit: undefined,
			...options,
		});
	}

	/** Opens an endpoint that lives as long as the lab. */
	async endpoint(...args: Parameters<typeof TestEndpoint.open>): Promise<TestEndpoint> {
		const endpoint = await TestEndpoint.open(...args);
		this.#endpoints.push(endpoint);
		return endpoint;
	}

	async silentEndpoint(): Promise<SilentEndpoint> {
		const endpoint = await SilentEndpoint.open();
		this.#endpoints.push(endpoint);
		return endpoint;
	}

	/** Endpoints that say their number to whoever connects, and hang up: the first says "1". */
	numbered(count: number): Promise<TestEndpoint[]> {
		return Promise.all(
			Array.from({ length: count }, (_, index) =>
				this.endpoint((socket) => {
					socket.end(String(index + 1));
					socket.resume();
				}),
			),
		);
	}

	async reconcile(...wanted: ServicePort[]): Promise<ReconcileOutcome> {
		return await this.engine.reconcile(wanted);
	}

	/** Serves one ServicePort; the answer is the proxy port. */
	async serve(parts: ServicePortParts): Promise<number> {
		const { bindings, problems } = await this.reconcile(aServicePort(parts));
		expect(problems).toEqual([]);
		return bindings[0]?.proxyPort ?? expect.unreachable("no binding");
	}

	/** A client that is connected to the proxy port. Not read, and with an `error` listener. */
	async connect(port: number, host = "127.0.0.1"): Promise<Socket> {
		const socket = this.dial(port, host);
		await once(socket, "connect");
		return socket;
	}

	/** The same, not yet connected. */
	dial(port: number, host = "127.0.0.1"): Socket {
		const socket = connect({ host, port, allowHalfOpen: true });
		socket.on("error", () => {});
		this.#clients.push(socket);
		return socket;
	}

	/** Sends, ends, and reads to the end: what one request is. */
	async ask(port: number, request: Buffer | string = "", host?: string): Promise<string> {
		const socket = this.dial(port, host);
		socket.end(request);
		return (await readToEnd(socket)).toString();
	}

	/** `count` requests, at most `atOnce` at a time; what did not succeed is an "error: …". */
	async askMany(port: number, count: number, atOnce: number): Promise<string[]> {
		const answers: string[] = [];
		let asked = 0;
		const worker = async () => {
			while (asked < count) {
				asked += 1;
				answers.push(await this.ask(port).catch((error: unknown) => `error: ${String(error)}`));
			}
		};
		await Promise.all(Array.from({ length: atOnce }, worker));
		return answers;
	}

	/** Waits until every connection is over and has its record. */
	async settled(): Promise<void> {
		await until(
			async () =>
				(await this.engine.connections()).length === 0 && this.records.length === this.starts,
			"every connection to be over",
		);
	}

	/** The only record, once it is there. */
	async record(): Promise<ConnectionRecord> {
		await until(() => this.records.length > 0, "a record");
		expect(this.records).toHaveLength(1);
		return this.records[0] ?? expect.unreachable();
	}

	/** Ends everything, and checks that nothing is left and that every connection had its record. */
	async close(): Promise<void> {
		await this.engine.close();
		for (const client of this.#clients) client.destroy();
		for (const endpoint of this.#endpoints) await endpoint.close();
		expect(this.engine.stats()).toMatchObject({ listeners: 0, tcpConnections: 0 });
		const started = this.starts + this.countedSum("started");
		expect(this.records.length + this.countedSum("ended")).toBe(started);
		expect(new Set(this.records.map(({ id }) => id)).size).toBe(this.records.length);
		await until(() => openDescriptors() <= this.#openBefore, "descriptors to be closed");
	}

	/** Of connections that were counted and not told of. */
	countedSum(of: "started" | "ended" | "bytesOut"): number {
		return this.counted.reduce((total, { counts }) => total + counts[of], 0);
	}
}

/** Descriptors that this process has open: sockets, pipes and whatever else. */
function openDescriptors(): number {
	return readdirSync("/proc/self/fd").length;
}

/** Sockets that this process has open. */
export function openSockets(): number {
	return readdirSync("/proc/self/fd").filter((fd) => {
		try {
			return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:");
		} catch {
			return false;
		}
	}).length;
}

/** Waits until the condition holds. */
export async function until(
	condition: () => boolean | Promise<boolean>,
	what: string,
): Promise<void> {
	const deadlineMs = performance.now() + PATIENCE_MS;
	while (!(await condition())) {
		if (performance.now() > deadlineMs) throw new Error(`Waited in vain for ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

/** Everything up to the FIN; rejects when the connection is reset. */
export function readToEnd(socket: Socket): Promise<Buffer> {
	return new Promise((resolve, reject) => {
		const chunks: Buffer[] = [];
		socket.on("data", (chunk: Buffer) => chunks.push(chunk));
		socket.on("end", () => resolve(Buffer.concat(chunks)));
		socket.on("error", reject);
		socket.resume();
	});
}

/** How the connection ended for this peer: "end", or the error's code. */
export function endOf(socket: Socket): Promise<string> {
	return new Promise((resolve) => {
		socket.on("end", () => resolve("end"));
		socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
		socket.resume();
	});
}

export function sha256(data: Buffer): string {
	return createHash("sha256").update(data).digest("hex");
}

/** Bytes that do not repeat with any power of two, so that a lost or doubled block is seen. */
export function someBytes(length: number): Buffer {
	const bytes = Buffer.alloc(length);
	for (let index = 0; index < length; index += 1) bytes[index] = (index * 31 + index / 251) & 0xff;
	return bytes;
}

export function countsOf(values: readonly (string | undefined)[]): Record<string, number> {
	const counts: Record<string, number> = {};
	for (const value of values) counts[value ?? ""] = (counts[value ?? ""] ?? 0) + 1;
	return counts;
}

/** How often `value` is among `values`. */
export function count<T>(values: readonly T[], value: T): number {
	return values.filter((each) => each === value).length;
}
