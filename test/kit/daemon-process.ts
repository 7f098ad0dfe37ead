import type { ChildProcess } from "node:child_process";
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { HttpAnswer } from "./agent-protocol.ts";
import { exited } from "./lab-command.ts";
import type { LabNamespace } from "./lab-namespace.ts";

/** One line of the daemon's log; its fields are in docs/observing.md. */
export interface LogLine {
	readonly level: "debug" | "info" | "warn" | "error";
	readonly msg: string;
	readonly [field: string]: unknown;
}

export interface DaemonOptions {
	/** The node's namespace, or any other. */
	readonly in: LabNamespace;
	/** Flags of `run`, after those that every test wants: node name, JSON log, every connection logged. */
	readonly flags: readonly string[];
	/** Instead of `kube-userproxy run` and its flags: the whole command line after `node`. */
	readonly program?: readonly string[];
	readonly env?: Readonly<Record<string, string>>;
	/** How many files it may have open (prlimit of util-linux); default: what the tests may. */
	readonly descriptorLimit?: number;
}

/** How the daemon's process ended: one of the two is null. */
export interface DaemonEnd {
	readonly code: number | null;
	readonly signal: NodeJS.Signals | null;
}

/** A test that logs more than this is broken; older lines are then forgotten. */
const MAX_LINES = 100_000;
const MAX_STDERR = 64 * 1024;
/** A daemon starts in a second; beside a dozen busy programs it has taken 20. */
const READY_TIMEOUT_MS = 60_000;
const LOG_TIMEOUT_MS = 20_000;
/** The drain time of the default configuration and some more. */
const STOP_TIMEOUT_MS = 40_000;
/** kube-proxy's own default. */
const HEALTHZ_PORT = 10_256;
const METRICS_PORT = 10_249;

const { KUP_TEST_PROGRAM = "src/main.ts" } = process.env;

/** The entry that is tested: the sources as they are, or what ships (`npm test` says so). */
export const DAEMON_PROGRAM = resolve(
	fileURLToPath(new URL("../../", import.meta.url)),
	KUP_TEST_PROGRAM,
);

/** Starts the daemon in a namespace of a lab; it is killed with the lab at the latest. */
export function startDaemon(options: DaemonOptions): DaemonProcess {
	const run = [DAEMON_PROGRAM, "run", ...DEFAULT_FLAGS, ...options.flags];
	const { descriptorLimit: limit } = options;
	const command = [
		...(limit === undefined ? [] : ["prlimit", `--nofile=${limit}:${limit}`]),
		process.execPath,
		...(options.program ?? run),
	];
	const [file = "", ...args] = command;
	const child = options.in.spawn(file, args, {
		stdio: ["ignore", "pipe", "pipe"],
		env: { ...options.env },
	});
	return new DaemonProcess(child, options.in);
}

const DEFAULT_FLAGS = [
	// The size of the connection tracking table is the whole host's: no test may ever set it.
	"--conntrack-max-per-core=0",
	"--hostname-override=node1",
	"--log-format=json",
	"--log-level=debug",
	"--log-connections=all",
] as const;

interface LogWaiter {
	readonly matches: (line: LogLine) => boolean;
	resolve(line: LogLine): void;
	reject(error: Error): void;
	readonly timer: NodeJS.Timeout;
}

/** The running daemon as a test sees it: its log, its end, its HTTP ports. */
export class DaemonProcess {
	/** Every JSON line of the log until now, oldest first. */
	readonly logs: LogLine[] = [];
	/** Resolves when the process is gone and its log is read to the end. */
	readonly ended: Promise<DaemonEnd>;
	readonly #child: ChildProcess;
	readonly #namespace: LabNamespace;
	readonly #waiters = new Set<LogWaiter>();
	#stderr = "";

	constructor(child: ChildProcess, namespace: LabNamespace) {
		this.#child = child;
		this.#namespace = namespace;
		child.on("error", (error) => this.#noMoreLines(error.message));
		child.stderr?.on("data", (chunk: Buffer) => {
			this.#stderr = (this.#stderr + chunk.toString()).slice(-MAX_STDERR);
		});
		if (child.stdout !== null) {
			createInterface({ input: child.stdout }).on("line", (line) => this.#take(line));
		}
		this.ended = new Promise((resolve) => {
			child.once("close", (code, signal) => {
				this.#noMoreLines(`it ended with ${signal ?? `status ${code}`}`);
				resolve({ code, signal });
			});
		});
	}

	/** @throws {Error} when it was never started. */
	get pid(): number {
		const { pid } = this.#child;
		if (pid === undefined) throw new Error("Cannot tell the daemon's pid: it did not start");
		return pid;
	}

	/** How many files the process has open now. */
	openDescriptors(): number {
		return readdirSync(`/proc/${this.pid}/fd`).length;
	}

	/** What it wrote to stderr, and lines of stdout that are no JSON; the last 64 KiB. */
	get stderr(): string {
		return this.#stderr;
	}

	/** Resolves with the line "ready". Rejects, with what was logged last, when the daemon ends before. */
	ready(timeoutMs = READY_TIMEOUT_MS): Promise<LogLine> {
		return this.waitForLog(({ msg }) => msg === "ready", { timeoutMs });
	}

	/**
	 * Resolves with the first line that matches, among those already there, too.
	 *
	 * @param from index into {@link logs} of the first line to look at; default 0.
	 */
	waitForLog(
		matches: (line: LogLine) => boolean,
		{ timeoutMs = LOG_TIMEOUT_MS, from = 0 } = {},
	): Promise<LogLine> {
		const there = this.logs.slice(from).find((line) => matches(line));
		if (there !== undefined) return Promise.resolve(there);
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#waiters.delete(waiter);
				reject(this.#error(`no such log line within ${timeoutMs} ms`));
			}, timeoutMs);
			const waiter: LogWaiter = { matches, resolve, reject, timer };
			this.#waiters.add(waiter);
			if (this.#child.exitCode !== null)
				void this.ended.then(() => this.#noMoreLines("it has ended"));
		});
	}

	signal(signal: NodeJS.Signals): void {
		this.#child.kill(signal);
	}

	/** Sends the signal and waits for the end; rejects, having killed it, after `timeoutMs`. */
	async stop(signal: NodeJS.Signals = "SIGTERM", timeoutMs = STOP_TIMEOUT_MS): Promise<DaemonEnd> {
		this.#child.kill(signal);
		const late = setTimeout(() => this.#child.kill("SIGKILL"), timeoutMs);
		const end = await this.ended;
		clearTimeout(late);
		if (end.signal === "SIGKILL" && signal !== "SIGKILL") {
			throw this.#error(`it did not end within ${timeoutMs} ms of ${signal}`);
		}
		return end;
	}

	/** As a crash: no clean-up, the kernel closes its sockets. Resolves when it is gone. */
	async kill9(): Promise<void> {
		this.#child.kill("SIGKILL");
		await exited(this.#child);
	}

	/** The sum over all series of a name: `metric("kube_userproxy_udp_flows")`; undefined: there is none. */
	async metric(name: string): Promise<number | undefined> {
		const { body } = await this.get("/metrics", METRICS_PORT);
		const values = body
			.split("\n")
			.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
			.map((line) => Number(line.slice(line.lastIndexOf(" "))));
		return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
	}

	/** GET on the daemon's own ports from inside its namespace: `get("/readyz")`. */
	async get(path: string, port = HEALTHZ_PORT): Promise<HttpAnswer> {
		const agent = await this.#namespace.agent();
		return await agent.get(`http://127.0.0.1:${port}${path}`);
	}

	#take(line: string): void {
		let parsed: LogLine;
		try {
			parsed = JSON.parse(line) as LogLine;
		} catch {
			this.#stderr = `${this.#stderr}${line}\n`.slice(-MAX_STDERR);
			return;
		}
		this.logs.push(parsed);
		if (this.logs.length > MAX_LINES) this.logs.shift();
		for (const waiter of this.#waiters) {
			if (!waiter.matches(parsed)) continue;
			this.#waiters.delete(waiter);
			clearTimeout(waiter.timer);
			waiter.resolve(parsed);
		}
	}

	#noMoreLines(reason: string): void {
		for (const waiter of this.#waiters) {
			clearTimeout(waiter.timer);
			waiter.reject(this.#error(reason));
		}
		this.#waiters.clear();
	}

	#error(reason: string): Error {
		const last = this.logs.slice(-5).map((line) => JSON.stringify(line));
		return new Error(
			[
				`The daemon in ${this.#namespace.role}: ${reason}. Its last words:`,
				...last,
				this.#stderr,
			].join("\n"),
		);
	}
}
