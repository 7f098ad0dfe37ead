import type { Config } from "../config/config.ts";
import type { Daemon, DaemonOptions } from "../daemon/contract.ts";
import type { CleanupReport } from "../rules/cleanup.ts";
import type { KubeProxyCleanupReport } from "../rules/cleanup-kube-proxy.ts";
import type { IpAddress, IpFamily } from "../services/address.ts";
import type { NodeNetwork } from "../services/node-network.ts";
import type { NodeView } from "../services/node-view.ts";
import type { NodeInfo } from "../services/objects.ts";
import type { HostFacts } from "./check-facts.ts";
import type { ListedSources } from "./read-sources.ts";

/** The process around the commands, as far as they need it; tests put another in its place. */
export interface Host {
	/** Writes to standard output; the text has its line ends. */
	out(text: string): void;
	/** Writes to standard error. */
	err(text: string): void;
	/** Standard output is a terminal that wants colours. */
	readonly colours: boolean;
	/** Width for the help. */
	readonly columns: number;
	readonly env: Readonly<Record<string, string | undefined>>;
	/** As the kernel has it. */
	readonly hostname: string;
	/** Of this program. */
	readonly version: string;
	/** Milliseconds since the epoch. */
	wallMs(): number;
	readonly signals: Signals;
	/** Ends the process at once, after what is logged has been written. */
	exit(code: number): void;
	/** @throws if it cannot be written. */
	writeFile(path: string, text: string): void;
	readonly doors: Doors;
}

/** Signals and the last resorts, as `process.on` gives them. */
interface Signals {
	on(name: SignalName, listener: () => void): void;
	on(name: LastResort, listener: (error: unknown) => void): void;
}

export type SignalName = "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "SIGUSR2";
export type LastResort = "uncaughtException" | "unhandledRejection";

export interface NodeLook {
	readonly view: NodeView;
	readonly network: NodeNetwork;
	/** The node's own address that UDP listeners of a family bind to, with the engine `stream`. */
	udpAddress(family: IpFamily): IpAddress | undefined;
}

/** The work of other rooms that commands set going. Loaded when it is needed. */
interface Doors {
	startDaemon(config: Config, options: DaemonOptions): Promise<Daemon>;
	/** The pid of a daemon that keeps rules here; undefined: none that can be seen. */
	runningDaemon(): Promise<number | undefined>;
	/** Removes everything that is ours. */
	cleanup(signal: AbortSignal): Promise<CleanupReport>;
	/** Removes what a kube-proxy in another mode left in the packet filter. */
	cleanupKubeProxy(signal: AbortSignal): Promise<KubeProxyCleanupReport>;
	/** Reads every configured source once. */
	readSources(config: Config, signal: AbortSignal): Promise<ListedSources>;
	/** Looks at this host; changes nothing. */
	gatherFacts(config: Config, signal: AbortSignal): Promise<HostFacts>;
	/** What the daemon would make of this node's network. */
	lookAtNode(config: Config, node: NodeInfo | undefined): NodeLook;
	/** What would relay. */
	relayEngine(config: Config): Promise<"stream" | "syscall">;
}
