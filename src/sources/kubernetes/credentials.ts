import { isDeepStrictEqual } from "node:util";
import type { KubeConfig } from "@kubernetes/client-node";
import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { ApiError } from "./api-errors.ts";
import type { ExecCredential } from "./exec-credential.ts";
import { DEFAULT_PLUGIN_LIMITS, ExecPlugin, type ExecPluginLimits } from "./exec-plugin.ts";
import type { ExecPluginConfig } from "./exec-plugin-config.ts";
import { ExecPluginError, withoutSecrets } from "./exec-plugin-error.ts";
import { type Kubeconfig, readKubeconfig, whyUnreadable } from "./kubeconfig.ts";
import { isRecord } from "./records.ts";

/** Where the cluster is, as the command line has it. */
export interface ClusterOptions {
	/** Path of a kubeconfig; undefined: in-cluster credentials, or `master` alone. */
	readonly kubeconfig: string | undefined;
	/** URL of the API server, in place of the kubeconfig's; alone: no credentials. */
	readonly master: string | undefined;
}

/** TLS settings in Node's words. */
export interface TlsOptions {
	readonly ca?: string | Buffer;
	readonly cert?: string | Buffer;
	readonly key?: string | Buffer;
	readonly servername?: string;
	readonly rejectUnauthorized?: boolean;
}

/** All that a request needs. Holds secrets: never to be logged. */
export interface Access {
	/** "https://192.0.2.10:6443": without path, user or password. */
	readonly origin: string;
	/** "" or "/k8s/clusters/c-1": stands before each path. */
	readonly basePath: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly tls: TlsOptions;
	readonly proxyUrl: string | undefined;
	/** "kubeconfig /etc/kube.conf": for messages. */
	readonly from: string;
	/** Which loading of the credentials this is out of; for {@link Credentials.invalidate}. */
	readonly generation: number;
}

export interface CredentialsOptions {
	readonly cluster: ClusterOptions;
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly clock: Clock;
	readonly log: Log;
	/** Where a pod's service account is mounted. */
	readonly serviceAccountFolder?: string | undefined;
	readonly pluginLimits?: Partial<ExecPluginLimits> | undefined;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
/** A kubeconfig that changed is seen at the latest after this, at the next request. */
const RECHECK_MS = 60_000;
/** Longest wait for client-node (OIDC asks a server); an exec plugin has its own bound, which is lower. */
const WAIT_MS = 70_000;
/** What has hung this long is left alone and tried anew. */
const ABANDON_MS = 300_000;

interface Loaded {
	/** Undefined where there are no credentials: client-node is not even loaded. */
	readonly config: KubeConfig | undefined;
	readonly plugin: ExecPlugin | undefined;
	readonly server: string;
	readonly proxyUrl: string | undefined;
	readonly from: string;
	/** The kubeconfig's text; undefined where there is none. */
	readonly text: string | undefined;
	readonly checkedAtMs: number;
	readonly generation: number;
}

/**
 * Credentials as client-node gives them: token, token file (read again each minute), client
 * certificate, basic, in-cluster; and those of an exec plugin, which we run. Files are read again for each connection, the
 * kubeconfig when it changed, and all of it after {@link invalidate}.
 */
export class Credentials {
	readonly #options: CredentialsOptions;
	readonly #abort = new AbortController();
	#plugin: ExecPlugin | undefined;
	#loaded: Loaded | undefined;
	#generation = 0;
	#pending: { readonly promise: Promise<Access>; readonly startedMs: number } | undefined;

	constructor(options: CredentialsOptions) {
		this.#options = options;
	}

	/**
	 * Waits no longer than the signal lets it.
	 *
	 * @throws {ApiError} "credentials"
	 */
	current(signal: AbortSignal): Promise<Access> {
		const nowMs = this.#options.clock.monotonicMs();
		// One at a time: three reflectors that start together must not start three plugins.
		if (this.#pending === undefined || nowMs - this.#pending.startedMs > ABANDON_MS) {
			const promise = this.#load().finally(() => {
				if (this.#pending?.promise === promise) this.#pending = undefined;
			});
			promise.catch(() => {});
			this.#pending = { promise, startedMs: nowMs };
		}
		return waitFor(this.#pending.promise, signal);
	}

	/** Ends an exec plugin that runs, with its children; resolves when it is gone. */
	async close(): Promise<void> {
		this.#abort.abort();
		await this.#plugin?.closed();
	}

	/**
	 * The server did not take what {@link current} gave: forgets every cached token, so that the next
	 * call starts from the files again. A late complaint about older credentials does nothing.
	 */
	invalidate(generation: number): void {
		if (this.#loaded?.generation === generation) this.#loaded = undefined;
	}

	async #load(): Promise<Access> {
		const loaded = await this.#refresh();
		try {
			return await toAccess(loaded);
		} catch (error) {
			// The next try starts from the files again: someone may have put them right.
			this.invalidate(loaded.generation);
			throw error;
		}
	}

	async #refresh(): Promise<Loaded> {
		const nowMs = this.#options.clock.monotonicMs();
		const { cluster } = this.#options;
		const loaded = this.#loaded;
		if (loaded !== undefined && nowMs - loaded.checkedAtMs < RECHECK_MS) return loaded;
		let file: Kubeconfig | undefined;
		try {
			if (cluster.kubeconfig !== undefined) file = await readKubeconfig(cluster.kubeconfig);
		} catch (error) {
			// A file in the middle of its replacement: what it said a minute ago is still good, and if
			// the server says otherwise, the credentials are forgotten and this error is told.
			if (loaded === undefined) throw error;
			file = undefined;
		}
		if (loaded !== undefined && (file === undefined || loaded.text === file.text)) {
			this.#loaded = { ...loaded, checkedAtMs: nowMs };
			return this.#loaded;
		}
		this.#generation += 1;
		const common = { checkedAtMs: nowMs, generation: this.#generation };
		this.#loaded = { ...(await this.#build(file)), ...common };
		return this.#loaded;
	}

	async #build(file: Kubeconfig | undefined): Promise<Omit<Loaded, "checkedAtMs" | "generation">> {
		const { cluster } = this.#options;
		if (file !== undefined) {
			const from = `kubeconfig ${cluster.kubeconfig}`;
			const config = await newKubeConfig();
			try {
				config.loadFromString(file.json);
			} catch (error) {
				throw credentialsError(from, error);
			}
			config.makePathsAbsolute(file.folder);
			const { server, proxyUrl } = settle(config, cluster.master);
			const plugin = this.#pluginOf(file.plugin);
			return { config, plugin, server, proxyUrl, from, text: file.text };
		}
		const none = { plugin: undefined, proxyUrl: undefined, text: undefined };
		if (cluster.master !== undefined) {
			return { config: undefined, server: cluster.master, from: "--master", ...none };
		}
		const inCluster = inClusterServer(this.#options.env);
		const config = await newKubeConfig();
		loadServiceAccount(config, inCluster, this.#options.serviceAccountFolder ?? SERVICE_ACCOUNT);
		return { config, server: inCluster, from: "in-cluster service account", ...none };
	}

	/** The same one as long as it is configured the same, so that what it is waited for is said once. */
	#pluginOf(config: ExecPluginConfig | undefined): ExecPlugin | undefined {
		if (config !== undefined && isDeepStrictEqual(config, this.#plugin?.config)) {
			this.#plugin?.forget();
			return this.#plugin;
		}
		const { env, clock, log, pluginLimits } = this.#options;
		const { signal } = this.#abort;
		const limits = { ...DEFAULT_PLUGIN_LIMITS, ...pluginLimits };
		// None runs now: credentials are loaded one after the other.
		this.#plugin = config && new ExecPlugin({ config, env, clock, log, limits, signal });
		return this.#plugin;
	}
}

async function toAccess(loaded: Loaded): Promise<Access> {
	const { config, from, generation, plugin, proxyUrl } = loaded;
	const server = parseServer(loaded.server, from);
	const common = { ...server, proxyUrl, from, generation };
	if (config === undefined) return { ...common, headers: {}, tls: {} };
	const given: NodeRequestOptions = {};
	try {
		await config.applyToHTTPSOptions(given);
		if (plugin !== undefined) applyExecCredential(await plugin.credential(), given);
	} catch (error) {
		throw credentialsError(from, error);
	}
	return { ...common, headers: headersOf(given), tls: tlsOf(given) };
}

/** By client-node's rules: a token of the kubeconfig wins over the plugin's, a certificate does not. */
function applyExecCredential(
	{ token, cert, key }: ExecCredential,
	given: NodeRequestOptions,
): void {
	if (cert !== undefined && key !== undefined) Object.assign(given, { cert, key });
	if (token !== undefined) given.headers = { Authorization: `Bearer ${token}`, ...given.headers };
}

type NodeRequestOptions = Parameters<KubeConfig["applyToHTTPSOptions"]>[0];

/** Loaded only when there is something for it to read: it costs most of a second and 100 MB. */
async function newKubeConfig(): Promise<KubeConfig> {
	const clientNode = await import("@kubernetes/client-node");
	return new clientNode.KubeConfig();
}

/** The address of the API server that every pod is told. @throws {ApiError} outside a cluster. */
export function inClusterServer(env: Readonly<Record<string, string | undefined>>): string {
	const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
	const port = env["KUBERNETES_SERVICE_PORT"] ?? "";
	if (host === "" || port === "") {
		throw new ApiError(
			"credentials",
			"Cannot use in-cluster credentials: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give --kubeconfig, --master or --manifests",
		);
	}
	return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function loadServiceAccount(config: KubeConfig, server: string, folder: string): void {
	const name = "in-cluster";
	config.loadFromOptions({
		clusters: [{ name, server, caFile: `${folder}/ca.crt`, skipTLSVerify: false }],
		users: [
			{ name, authProvider: { name: "tokenFile", config: { tokenFile: `${folder}/token` } } },
		],
		contexts: [{ name, cluster: name, user: name }],
		currentContext: name,
	});
}

/** Puts `--master` in place, and what client-node needs to do its work in every case. */
function settle(
	config: KubeConfig,
	master: string | undefined,
): { server: string; proxyUrl: string | undefined } {
	const cluster = config.getCurrentCluster();
	if (cluster === null) throw new TypeError("the kubeconfig's current context was not checked");
	const server = master ?? cluster.server;
	// client-node would make an agent for the proxy, which nobody would use.
	const { proxyUrl, ...rest } = cluster;
	// client-node refuses http:// without this, where there is no TLS to verify.
	const skipTLSVerify = cluster.skipTLSVerify || server.startsWith("http:");
	// Without any user it would leave out the CA too.
	const user = config.getCurrentUser() ?? { name: "none" };
	const name = "current";
	config.loadFromOptions({
		clusters: [{ ...rest, name, server, skipTLSVerify }],
		users: [{ ...user, name }],
		contexts: [{ name, cluster: name, user: name }],
		currentContext: name,
	});
	return { server, proxyUrl };
}

function parseServer(server: string, from: string): { origin: string; basePath: string } {
	const url = URL.canParse(server) ? new URL(server) : undefined;
	if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
		throw new ApiError(
			"credentials",
			`Cannot use the API server's address of ${from}: wanted https://HOST:PORT`,
		);
	}
	return { origin: url.origin, basePath: url.pathname.replace(/\/+$/, "") };
}

function headersOf(given: NodeRequestOptions): Record<string, string> {
	const headers: Record<string, string> = {};
	for (const [name, value] of Object.entries(given.headers ?? {})) {
		// Token files often end with a newline, which no header may hold.
		if (typeof value === "string") headers[name.toLowerCase()] = value.trim();
	}
	if (typeof given.auth === "string" && given.auth !== "") {
		headers["authorization"] = `Basic ${Buffer.from(given.auth).toString("base64")}`;
	}
	return headers;
}

function tlsOf(given: NodeRequestOptions): TlsOptions {
	const { ca, cert, key, servername, rejectUnauthorized } = given;
	return {
		...(isPem(ca) ? { ca } : {}),
		...(isPem(cert) ? { cert } : {}),
		...(isPem(key) ? { key } : {}),
		...(typeof servername === "string" ? { servername } : {}),
		...(rejectUnauthorized === false ? { rejectUnauthorized } : {}),
	};
}

function isPem(value: unknown): value is string | Buffer {
	return typeof value === "string" || Buffer.isBuffer(value);
}

/** What client-node could not do, without any content of files or of a plugin's output. */
function credentialsError(from: string, error: unknown): ApiError {
	return new ApiError("credentials", `Cannot use the credentials of ${from}: ${why(error)}`);
}

function why(error: unknown): string {
	if (error instanceof ExecPluginError) return error.message;
	const path = isRecord(error) && typeof error["path"] === "string" ? error["path"] : undefined;
	if (path !== undefined) return `${path}: ${whyUnreadable(error)}`;
	// A JSON error quotes the text: what an auth provider's program printed is a token.
	if (error instanceof SyntaxError) return "what it was to be read from is not JSON";
	const text = error instanceof Error ? error.message : "";
	return text === "" ? "no reason is known" : withoutSecrets(text);
}

async function waitFor<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
	const message = "The credentials of the kubeconfig are not to be had in time";
	const { promise: over, reject } = Promise.withResolvers<never>();
	const giveUp = () => reject(new ApiError("credentials", message));
	const timer = setTimeout(giveUp, WAIT_MS);
	signal.addEventListener("abort", giveUp, { once: true });
	if (signal.aborted) giveUp();
	try {
		return await Promise.race([promise, over]);
	} finally {
		clearTimeout(timer);
		signal.removeEventListener("abort", giveUp);
	}
}
