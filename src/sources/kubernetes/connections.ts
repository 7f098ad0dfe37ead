import { createHash } from "node:crypto";
import type { buildConnector, Dispatcher } from "undici";
import type { Access, TlsOptions } from "./credentials.ts";

export interface ConnectionTiming {
	/** A connection must be there after this, in milliseconds. */
	readonly connectMs: number;
	/**
	 * Between pings of HTTP/2, in milliseconds. undici destroys a session when a ping is unanswered at
	 * the time of the next one: a peer that is gone is noticed within twice this.
	 */
	readonly pingMs: number;
}

export const DEFAULT_TIMING: ConnectionTiming = { connectMs: 10_000, pingMs: 15_000 };

/** With Node's default interval of 1 s and count of 10: a peer that is gone is noticed after 25 s. */
const TCP_KEEPALIVE_MS = 15_000;
/** Between a list and its watch, and between a watch and the next one, a connection is idle. */
const IDLE_CONNECTION_MS = 30_000;
/** HTTP/1.1 needs one for each watch and one for a list beside it; HTTP/2 needs one. */
const MAX_CONNECTIONS = 8;
/** Dispatchers whose last watches still go on; beyond, the oldest is cut off. */
const MAX_RETIRED = 4;

/**
 * The kept-alive connections to the API server: one dispatcher for list and watch of everything, made
 * anew only when the TLS material, the address or the proxy changed, or after {@link retire}.
 */
export class Connections {
	readonly #timing: ConnectionTiming;
	#current: { readonly dispatcher: Dispatcher; readonly fingerprint: string } | undefined;
	readonly #retired: Dispatcher[] = [];

	constructor(timing: ConnectionTiming) {
		this.#timing = timing;
	}

	/** @throws where TLS material or the proxy's address cannot be used. */
	async for(access: Access): Promise<Dispatcher> {
		// Loaded only when a cluster is a source. Nothing is awaited after it, so that callers who come
		// together share what the first of them makes.
		const undici = await import("undici");
		const fingerprint = fingerprintOf(access);
		if (this.#current?.fingerprint === fingerprint) return this.#current.dispatcher;
		const dispatcher = connect(undici, access, this.#timing);
		this.retire();
		this.#current = { dispatcher, fingerprint };
		return dispatcher;
	}

	/** The next request gets new connections; what goes on over the old ones may end by itself. */
	retire(): void {
		if (this.#current === undefined) return;
		const { dispatcher } = this.#current;
		this.#current = undefined;
		this.#retired.push(dispatcher);
		dispatcher.close().then(
			() => this.#forget(dispatcher),
			() => this.#forget(dispatcher),
		);
		if (this.#retired.length > MAX_RETIRED) void destroyQuietly(this.#retired.shift());
	}

	/** Resolves when no connection is open any more. */
	async close(): Promise<void> {
		const all = [...this.#retired, this.#current?.dispatcher];
		this.#current = undefined;
		await Promise.all(all.map(destroyQuietly));
	}

	#forget(dispatcher: Dispatcher): void {
		const index = this.#retired.indexOf(dispatcher);
		if (index !== -1) this.#retired.splice(index, 1);
	}
}

/** Never rejects. */
async function destroyQuietly(dispatcher: Dispatcher | undefined): Promise<void> {
	try {
		await dispatcher?.destroy();
	} catch {
		// It is gone either way.
	}
}

function connect(
	{ Agent, buildConnector: build, ProxyAgent }: typeof import("undici"),
	access: Access,
	{ connectMs, pingMs }: ConnectionTiming,
): Dispatcher {
	const tls: buildConnector.BuildOptions = {
		...access.tls,
		timeout: connectMs,
		keepAlive: true,
		keepAliveInitialDelay: TCP_KEEPALIVE_MS,
	};
	const common = {
		connections: MAX_CONNECTIONS,
		keepAliveTimeout: IDLE_CONNECTION_MS,
		// Our own bounds differ by request, and end in messages that say what was waited for.
		headersTimeout: 0,
		bodyTimeout: 0,
		allowH2: true,
		h2Options: { pingInterval: pingMs },
	};
	if (access.proxyUrl !== undefined) {
		const { proxyUrl: uri } = access;
		return new ProxyAgent({ uri, ...common, requestTls: tls, connectTimeout: connectMs });
	}
	return new Agent({ ...common, connect: build({ ...tls, allowH2: true, preferH2: true }) });
}

/** Changes when anything about the connection changes; tells nothing of the secrets in it. */
function fingerprintOf({ origin, proxyUrl, tls }: Access): string {
	const parts = [origin, proxyUrl, tls.servername, tls.rejectUnauthorized, ...materialOf(tls)];
	return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

function materialOf({ ca, cert, key }: TlsOptions): readonly string[] {
	return [ca, cert, key].map((part) => part?.toString("latin1") ?? "");
}
