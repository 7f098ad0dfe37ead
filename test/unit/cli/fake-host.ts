import type { HostFacts } from "../../../src/cli/check-facts.ts";
import type { Host, LastResort, SignalName } from "../../../src/cli/host.ts";
import { runCli } from "../../../src/cli/program.ts";
import type { Config } from "../../../src/config/config.ts";
import type { Daemon, DaemonOptions } from "../../../src/daemon/contract.ts";
import type { StopResult } from "../../../src/daemon/stop-serving.ts";
import { PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import type { Snapshot } from "../../../src/services/objects.ts";
import { plainView } from "../../kit/views.ts";

/** A process that only takes notes. */
export interface FakeHost extends Host {
	readonly stdout: () => string;
	readonly stderr: () => string;
	/** "daemon: stop SIGTERM", "wrote /f": what happened, in order. */
	readonly events: string[];
	readonly files: Map<string, string>;
	readonly exits: number[];
	/** The daemon as it was started, once it was. */
	readonly started: () => { readonly config: Config; readonly options: DaemonOptions } | undefined;
	/** Ends the daemon; with an error, as a failure. */
	readonly endDaemon: (error?: Error) => void;
	/** Ends the daemon as a stop that could not take the rules away. */
	readonly endDaemonWithRules: () => void;
	readonly raise: (name: SignalName | LastResort, error?: unknown) => void;
}

export const EMPTY_SNAPSHOT: Snapshot = {
	services: new Map(),
	endpointSlices: new Map(),
	serviceCidrs: new Map(),
	node: undefined,
};

/** A host where everything is fine. */
export const FINE_FACTS: HostFacts = {
	nodeVersion: "26.10.0",
	platform: "linux",
	capabilities: (1n << 41n) - 1n,
	descriptorLimit: 1_048_576,
	tables: {
		state: "usable",
		variant: "nft",
		version: "1.8.9",
		reason: "it holds more rules",
		unavailable: [],
	},
	conntrack: "found",
	conntrackSettings: [],
	trials: [
		{ family: "ipv4", how: "namespace", problem: undefined },
		{ family: "ipv6", how: "namespace", problem: undefined },
	],
	otherProxies: [],
	ipvs: "absent",
	sources: [{ name: "manifests /m", isComplete: true, problems: [] }],
	listens: [
		{ flag: "--healthz-bind-address", address: "0.0.0.0:10256", code: undefined },
		{ flag: "--metrics-bind-address", address: "127.0.0.1:10249", code: undefined },
	],
};

export function fakeHost(doors: Partial<Host["doors"]> = {}, rest: Partial<Host> = {}): FakeHost {
	const out: string[] = [];
	const err: string[] = [];
	const events: string[] = [];
	const exits: number[] = [];
	const files = new Map<string, string>();
	const listeners = new Map<string, (error: unknown) => void>();
	const end = Promise.withResolvers<StopResult>();
	let started: { config: Config; options: DaemonOptions } | undefined;
	const daemon: Daemon = {
		ended: end.promise,
		stop: (reason) => events.push(`stop ${reason}`),
		logMoreConnections: () => events.push("more"),
		logFewerConnections: () => events.push("fewer"),
		reload: () => events.push("reload"),
		fatal: (error) => events.push(`fatal ${error instanceof Error ? error.message : "?"}`),
	};
	return {
		out: (text) => out.push(text),
		err: (text) => err.push(text),
		colours: false,
		columns: 100,
		env: {},
		hostname: "node1",
		version: "1.2.3",
		wallMs: () => 1_000_000,
		signals: {
			on: (name: string, listener: (error: unknown) => void) => {
				listeners.set(name, listener);
			},
		},
		exit: (code) => exits.push(code),
		writeFile: (path, text) => files.set(path, text),
		...rest,
		doors: {
			startDaemon: (config, options) => {
				started = { config, options };
				return Promise.resolve(daemon);
			},
			runningDaemon: () => Promise.resolve(undefined),
			cleanup: () => Promise.resolve({ cleaned: [], problems: [] }),
			cleanupKubeProxy: () =>
				Promise.resolve({
					cleaned: [],
					nftTables: [],
					kept: [],
					left: [],
					unseen: [],
					problems: [],
				}),
			readSources: () => Promise.resolve({ snapshot: EMPTY_SNAPSHOT, sources: [] }),
			gatherFacts: () => Promise.resolve(FINE_FACTS),
			lookAtNode: () => ({
				view: plainView,
				network: PLAIN_NETWORK,
				udpAddress: () => undefined,
			}),
			relayEngine: () => Promise.resolve("stream"),
			...doors,
		},
		stdout: () => out.join(""),
		stderr: () => err.join(""),
		events,
		files,
		exits,
		started: () => started,
		endDaemon: (error) =>
			error === undefined ? end.resolve({ rulesAreGone: true }) : end.reject(error),
		endDaemonWithRules: () => end.resolve({ rulesAreGone: false }),
		raise: (name, error) => listeners.get(name)?.(error),
	};
}

/** Runs one command line, words parted by blanks, to its end. */
export async function run(line: string, host: FakeHost = fakeHost()) {
	const status = await runCli(line === "" ? [] : line.split(" "), host);
	return { status, stdout: host.stdout(), stderr: host.stderr() };
}
