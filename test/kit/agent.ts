import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type {
	AgentCommands,
	AgentReply,
	AgentRequest,
	CommandName,
	ConnectionState,
	HttpAnswer,
	ServerStats,
	ServeTcp,
	ServeUdp,
	TcpResult,
	TcpTraffic,
	UdpResult,
	UdpTraffic,
} from "./agent-protocol.ts";
import { COMPILED_PROGRAMS, exited } from "./lab-command.ts";
import type { LabNamespace } from "./lab-namespace.ts";

export const AGENT_PROGRAM = fileURLToPath(new URL("agent-main.ts", import.meta.url));

/** Node starts in 0.1 s; a machine with other work on it may take much longer. */
const START_TIMEOUT_MS = 20_000;
/** Longer than any bound inside the agent; only a hung agent meets it. */
const REPLY_TIMEOUT_MS = 120_000;

/** JSON leaves out what is undefined; tests are to find the fields that the types promise. */
const NO_ERROR = { error: undefined, localPort: undefined };
const ABSENT = { ...NO_ERROR, sha256: undefined, from: undefined };

/** An error of the agent's side, with the system's code where there was one. */
export class AgentError extends Error {
	override readonly name = "AgentError";
	readonly code: string | undefined;

	constructor(message: string, code: string | undefined) {
		super(message);
		this.code = code;
	}
}

interface Waiting {
	resolve(gives: unknown): void;
	reject(error: Error): void;
	readonly timer: NodeJS.Timeout;
}

/**
 * A traffic agent in a namespace: real clients and servers that a test drives. One process, started
 * by {@link LabNamespace.agent}; whatever it holds ends with it.
 */
export class Agent {
	/** Resolves when the process is gone. */
	readonly exited: Promise<void>;
	readonly #child: ChildProcess;
	readonly #where: string;
	readonly #waiting = new Map<number, Waiting>();
	#lastId = 0;

	/** Rejects when the agent does not come up within 20 s. */
	static async start(namespace: LabNamespace): Promise<Agent> {
		const child = namespace.spawn(process.execPath, [AGENT_PROGRAM], {
			stdio: ["pipe", "pipe", "inherit"],
			env: { NODE_COMPILE_CACHE: COMPILED_PROGRAMS },
		});
		const agent = new Agent(child, namespace.role);
		await agent.#reply(0, START_TIMEOUT_MS);
		return agent;
	}

	private constructor(child: ChildProcess, where: string) {
		this.#child = child;
		this.#where = where;
		this.exited = exited(child).then(() => this.#failAll("it has ended"));
		child.on("error", (error) => this.#failAll(error.message));
		child.stdin?.on("error", () => {});
		if (child.stdout !== null) {
			createInterface({ input: child.stdout }).on("line", (line) => this.#settle(line));
		}
	}

	get pid(): number | undefined {
		return this.#child.pid;
	}

	/** Starts a TCP server; rejects with code EADDRINUSE and the like. */
	async serveTcp(options: ServeTcp): Promise<RemoteServer> {
		const { server, port } = await this.call("serveTcp", options);
		return new RemoteServer(this, server, port);
	}

	async serveUdp(options: ServeUdp): Promise<RemoteServer> {
		const { server, port } = await this.call("serveUdp", options);
		return new RemoteServer(this, server, port);
	}

	/** Makes TCP connections; failures are results, not rejections. */
	async tcp(traffic: TcpTraffic): Promise<TcpResult[]> {
		const results = await this.call("tcp", traffic);
		return results.map((result) => ({ ...ABSENT, ...result }));
	}

	async udp(traffic: UdpTraffic): Promise<UdpResult[]> {
		const results = await this.call("udp", traffic);
		return results.map((result) => ({ ...ABSENT, ...result }));
	}

	/** Rejects when no answer came; any HTTP status is an answer. */
	get(url: string, timeoutMs = 5000): Promise<HttpAnswer> {
		return this.call("httpGet", { url, timeoutMs });
	}

	/** Opens a connection to be driven step by step; rejects with code ECONNREFUSED and the like. */
	async connect(options: AgentCommands["open"]["takes"]): Promise<RemoteConnection> {
		return new RemoteConnection(this, (await this.call("open", options)).connection);
	}

	/**
	 * Closes every server and connection, as a new agent has none.
	 *
	 * @returns false when the agent is gone or still busy with a request: then it is not as new.
	 */
	async forget(): Promise<boolean> {
		if (this.#waiting.size > 0) return false;
		try {
			await this.call("forget", {});
			return true;
		} catch {
			return false;
		}
	}

	/** Sends a command as it is; the methods above say it nicer. */
	async call<Name extends CommandName>(
		command: Name,
		takes: AgentCommands[Name]["takes"],
	): Promise<AgentCommands[Name]["gives"]> {
		this.#lastId += 1;
		const request: AgentRequest<Name> = { id: this.#lastId, command, takes };
		const replied = this.#reply(request.id, REPLY_TIMEOUT_MS);
		this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
		return (await replied) as AgentCommands[Name]["gives"];
	}

	/** SIGKILL, as a crashed program goes: the kernel closes what it held. Resolves when it is gone. */
	async kill(): Promise<void> {
		this.#child.kill("SIGKILL");
		await this.exited;
	}

	#reply(id: number, timeoutMs: number): Promise<unknown> {
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#waiting.delete(id);
				reject(new AgentError(`No reply from the agent in ${this.#where}`, "TIMEOUT"));
			}, timeoutMs);
			this.#waiting.set(id, { resolve, reject, timer });
			if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
				this.#failAll("it has ended");
			}
		});
	}

	#settle(line: string): void {
		const message = JSON.parse(line) as AgentReply;
		const waiting = this.#waiting.get(message.id);
		if (waiting === undefined) return;
		this.#waiting.delete(message.id);
		clearTimeout(waiting.timer);
		if ("failed" in message) waiting.reject(new AgentError(message.failed, message.code));
		else waiting.resolve(message.gives);
	}

	#failAll(reason: string): void {
		for (const waiting of this.#waiting.values()) {
			clearTimeout(waiting.timer);
			waiting.reject(
				new AgentError(`Cannot use the agent in ${this.#where}: ${reason}`, undefined),
			);
		}
		this.#waiting.clear();
	}
}

/** A server that an agent runs. */
export class RemoteServer {
	readonly port: number;
	readonly #agent: Agent;
	readonly #server: number;

	constructor(agent: Agent, server: number, port: number) {
		this.#agent = agent;
		this.#server = server;
		this.port = port;
	}

	stats(): Promise<ServerStats> {
		return this.#agent.call("serverStats", { server: this.#server });
	}

	/** Stops listening; resolves when the port is free. Connections go on unless `abruptly`: then reset. */
	async close({ abruptly = false } = {}): Promise<void> {
		await this.#agent.call("closeServer", { server: this.#server, abruptly });
	}
}

/** A client connection that an agent holds. It reads only while {@link read} waits. */
export class RemoteConnection {
	readonly #agent: Agent;
	readonly #connection: number;

	constructor(agent: Agent, connection: number) {
		this.#agent = agent;
		this.#connection = connection;
	}

	/** @returns false when the kernel has not taken everything within `timeoutMs`. */
	async write(data: string | { bytes: number }, timeoutMs = 5000): Promise<boolean> {
		const what = typeof data === "string" ? { send: data } : { sendBytes: data.bytes };
		const connection = this.#connection;
		return (await this.#agent.call("write", { connection, ...what, timeoutMs })).flushed;
	}

	/** Reads until so many bytes came in all, the peer's FIN, or the close; or the time is over. */
	async read(until: "end" | "closed" | number, timeoutMs = 5000): Promise<ConnectionState> {
		const connection = this.#connection;
		return { ...NO_ERROR, ...(await this.#agent.call("read", { connection, until, timeoutMs })) };
	}

	async state(): Promise<ConnectionState> {
		const connection = this.#connection;
		return { ...NO_ERROR, ...(await this.#agent.call("state", { connection })) };
	}

	/** "end": FIN, and the other direction stays open. */
	async finish(how: "end" | "reset" | "destroy"): Promise<ConnectionState> {
		const connection = this.#connection;
		return { ...NO_ERROR, ...(await this.#agent.call("finish", { connection, how })) };
	}
}

/** How many answers each endpoint gave: `{ ep1: 334, ep2: 333, ep3: 333 }`; failures by their code. */
export function tally(
	results: readonly { readonly answer: string; readonly error: string | undefined }[],
): Record<string, number> {
	const counts: Record<string, number> = {};
	for (const { answer, error } of results) {
		const what = error ?? answer;
		counts[what] = (counts[what] ?? 0) + 1;
	}
	return Object.fromEntries(Object.entries(counts).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
