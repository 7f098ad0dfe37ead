import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import process from "node:process";
import type { Config } from "../config/config.ts";
import { hostCpuCount } from "../daemon/adjust-conntrack.ts";
import type { Daemon, DaemonOptions } from "../daemon/contract.ts";
import { findNodeLockHolder } from "../daemon/node-lock.ts";
import { LINK_LOOK_MS, NodeWatch } from "../daemon/node-watch.ts";
import { cleanup } from "../rules/cleanup.ts";
import { cleanupKubeProxy } from "../rules/cleanup-kube-proxy.ts";
import { createCommandRunner } from "../rules/command-runner.ts";
import { settingFiles } from "../rules/setting-files.ts";
import type { NodeInfo } from "../services/objects.ts";
import { silentLog } from "../shared/log.ts";
import { gatherFacts, readTextFileIfAny } from "./gather-facts.ts";
import type { Host, LastResort, NodeLook, SignalName } from "./host.ts";
import { readSources } from "./read-sources.ts";

/** Help is easier to read in lines that are not very long. */
const MAX_COLUMNS = 110;

/**
 * This process and the host that it runs on.
 *
 * @param early signals that came before anybody listened: whoever listens gets each once.
 */
export function processHost(early: Set<string>): Host {
	const { env } = process;
	return {
		out: (text) => process.stdout.write(text),
		err: (text) => process.stderr.write(text),
		// https://no-color.org: any value but the empty one.
		colours: process.stdout.isTTY && (env["NO_COLOR"] ?? "") === "",
		columns: Math.min(MAX_COLUMNS, process.stdout.columns ?? MAX_COLUMNS),
		env,
		hostname: hostname(),
		version: readVersion(),
		wallMs: () => Date.now(),
		signals: {
			on: (name: SignalName | LastResort, listener: (error: unknown) => void) => {
				process.on(name, listener);
				if (early.delete(name)) setImmediate(listener);
			},
		},
		exit: (code) => process.exit(code),
		// It may hold a kubeconfig's path and nothing secret, but others need not read it.
		writeFile: (path, text) => writeFileSync(path, text, { mode: 0o640 }),
		doors: {
			startDaemon: openDaemon,
			runningDaemon: () => findNodeLockHolder(),
			cleanup: (signal) => cleanup({ ...hostLook(), signal }),
			cleanupKubeProxy: (signal) => cleanupKubeProxy({ ...hostLook(), signal }),
			readSources: (config, signal) => readSources(config, env, signal),
			gatherFacts: (config, signal) =>
				gatherFacts(
					config,
					{
						...hostLook(),
						settings: settingFiles(),
						cpuCount: hostCpuCount(),
						env,
						nodeVersion: process.versions.node,
						platform: process.platform,
					},
					signal,
				),
			lookAtNode,
			relayEngine,
		},
	};
}

function hostLook() {
	return { runner: createCommandRunner({ env: process.env }), readTextFile: readTextFileIfAny };
}

/** Loaded only for `run`: it brings the whole program with it. */
async function openDaemon(config: Config, options: DaemonOptions): Promise<Daemon> {
	const { startDaemon } = await import("../daemon/daemon.ts");
	return startDaemon(config, options);
}

/** Loaded only for `plan`: it brings both engines with it. */
async function relayEngine(config: Config): Promise<"stream" | "syscall"> {
	const { engineNameFor } = await import("../daemon/engine.ts");
	return await engineNameFor(config);
}

function lookAtNode(config: Config, info: NodeInfo | undefined): NodeLook {
	let nowMs = 0;
	const node = new NodeWatch({
		config,
		log: silentLog,
		nodeInfo: () => info,
		bindings: () => [],
		clock: { monotonicMs: () => nowMs, wallMs: () => Date.now() },
	});
	// The daemon looks twice before it takes an interface for one without an address.
	node.refresh();
	nowMs += LINK_LOOK_MS;
	node.refresh();
	return {
		view: node.view(),
		network: node.network(),
		udpAddress: (family) => node.addressOf(family),
	};
}

/** Beside src/ in a checkout and beside dist/ once built. */
function readVersion(): string {
	const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
	const parsed: unknown = JSON.parse(text);
	return typeof parsed === "object" && parsed !== null && "version" in parsed
		? `${parsed.version as string}`
		: "unknown";
}
