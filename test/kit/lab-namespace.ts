import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { Agent } from "./agent.ts";
import {
	type CommandOptions,
	type CommandResult,
	commandEnv,
	dieWithParent,
	exited,
	runCommand,
} from "./lab-command.ts";

/** What changes nothing but packet rules and conntrack entries: they can be flushed. */
const FLUSHABLE = /^(?:ip6?tables(?:-\w+)*|nft|conntrack)$/;
/** What changes nothing of the network; Node is the tested program's commands. */
const HARMLESS: ReadonlySet<string> = new Set(["cat", "ss", "prlimit", process.execPath]);

/** One network namespace of a lab, and what runs in it. */
export class LabNamespace {
	/** "node", "client", "outside", "ep1": what it is in the lab. */
	readonly role: string;
	/** As `ip netns` knows it. */
	readonly name: string;
	/** On the link to the node; the node's own are those on the link to the client. */
	readonly ipv4: string;
	readonly ipv6: string;
	readonly #children = new Set<ChildProcess>();
	#agent: Promise<Agent> | undefined;
	#isAltered = false;

	constructor(role: string, name: string, addresses: { ipv4: string; ipv6: string }) {
		this.role = role;
		this.name = name;
		this.ipv4 = addresses.ipv4;
		this.ipv6 = addresses.ipv6;
	}

	/** Runs a command in the namespace to its end; see {@link runCommand} for when it rejects. */
	exec(file: string, args: readonly string[], options?: CommandOptions): Promise<CommandResult> {
		const isUndone = HARMLESS.has(file) || (this.role === "node" && FLUSHABLE.test(file));
		if (!isUndone) this.#isAltered = true;
		return runCommand("ip", ["netns", "exec", this.name, file, ...args], options);
	}

	/** `ip` in the namespace: `ip("addr", "add", "192.168.77.1/24", "dev", "to-client")`. */
	async ip(...args: readonly string[]): Promise<string> {
		this.#isAltered = true;
		return (await runCommand("ip", ["-n", this.name, ...args])).stdout;
	}

	/** Sets `net.*` values: `sysctl({ "net.ipv4.tcp_tw_reuse": "1" })`. */
	async sysctl(values: Readonly<Record<string, string>>): Promise<void> {
		const lines = Object.entries(values).map(
			([key, value]) => `echo '${value}' > /proc/sys/${key.replaceAll(".", "/")}`,
		);
		await this.exec("sh", ["-ec", lines.join("\n")]);
	}

	/**
	 * Starts a long-lived program in the namespace. It is killed when the lab closes, and by the kernel
	 * when this process dies.
	 */
	spawn(file: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
		const inside = ["ip", "netns", "exec", this.name, file, ...args];
		const [first = "", ...rest] = [...dieWithParent(), ...inside];
		const child = spawn(first, rest, { ...options, env: { ...commandEnv, ...options.env } });
		this.#children.add(child);
		child.on("error", () => this.#children.delete(child));
		child.once("exit", () => this.#children.delete(child));
		return child;
	}

	/** The namespace's traffic agent, started at the first call and again when it has died. */
	agent(): Promise<Agent> {
		this.#agent ??= Agent.start(this).then((agent) => {
			void agent.exited.then(() => {
				this.#agent = undefined;
			});
			return agent;
		});
		return this.#agent;
	}

	/** Of the agent's process; undefined while none runs. */
	async agentPid(): Promise<number | undefined> {
		return (await this.#agent?.catch(() => undefined))?.pid;
	}

	/**
	 * Drops what arrives for a port without a word, as a host that is down does: connections to it get
	 * no answer at all. Needs iptables.
	 */
	async goSilent(port: number): Promise<void> {
		await this.#forBothFamilies("-I", port);
	}

	/** Undoes {@link goSilent}. */
	async speakAgain(port: number): Promise<void> {
		await this.#forBothFamilies("-D", port);
	}

	/**
	 * Ends all that runs here but the agent, which forgets what it had.
	 *
	 * @returns false when more than that was done here, and the namespace is not as it was when it was new.
	 */
	async startAfresh(): Promise<boolean> {
		if (this.#isAltered) return false;
		const agent = await this.#agent?.catch(() => undefined);
		const others = [...this.#children].filter(({ pid }) => pid !== agent?.pid);
		for (const child of others) child.kill("SIGKILL");
		await Promise.all(others.map(exited));
		return agent === undefined ? this.#agent === undefined : await agent.forget();
	}

	/** Kills what was started here and has not ended. Idempotent. */
	async close(): Promise<void> {
		const children = [...this.#children];
		for (const child of children) child.kill("SIGKILL");
		await Promise.all(children.map(exited));
	}

	async #forBothFamilies(action: "-I" | "-D", port: number): Promise<void> {
		for (const command of ["iptables", "ip6tables"]) {
			for (const protocol of ["tcp", "udp"]) {
				const match = ["-p", protocol, "--dport", String(port), "-j", "DROP"];
				// oxlint-disable-next-line no-await-in-loop -- they change the same table
				await this.exec(command, ["-w", "5", action, "INPUT", ...match]);
			}
		}
	}
}
