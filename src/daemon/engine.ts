import { arch, platform } from "node:os";
import type { Config } from "../config/config.ts";
import type { EngineHooks, PreferredPorts, RelayEngine } from "../proxies/engine.ts";
import type { EngineOptions } from "../proxies/engine-options.ts";
import { createStreamEngine } from "../proxies/stream/stream-engine.ts";
import type { PreviousBinding } from "../rules/previous.ts";
import type { Port } from "../services/port.ts";
import type { ServicePortKey } from "../services/service-port.ts";
import { describeError, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { platformProblem } from "../system/platform-problem.ts";
import type { NodeWatch } from "./node-watch.ts";
import type { RulesDriver } from "./rules-driver.ts";

export interface EngineParts {
	readonly rules: Pick<RulesDriver, "open" | "previous">;
	readonly node: Pick<NodeWatch, "addressOf">;
	readonly hooks: EngineHooks;
	readonly log: Log;
	readonly signal: AbortSignal;
}

type RelayOptions = Pick<
	EngineOptions,
	"bindAddress" | "portRange" | "dialTimeoutsMs" | "halfCloseIdleMs" | "drainRemovedMs" | "udp"
>;

/** What makes the engine of system calls. */
export type SyscallModule = Pick<
	typeof import("../proxies/syscall/syscall-engine.ts"),
	"createSyscallEngine"
>;

export interface OpenedEngine {
	readonly engine: RelayEngine;
	/** Why `--relay auto` is not the engine of system calls here; undefined where it is, or is not asked. */
	readonly fallbackReason: string | undefined;
}

/**
 * The engine that the configuration asks for, on a predecessor's ports where there are rules of one.
 *
 * @param load where tests put something else.
 */
export async function openEngine(
	config: Config,
	parts: EngineParts,
	load: () => Promise<SyscallModule> = loadSyscallEngine,
): Promise<OpenedEngine> {
	const { node, hooks, log } = parts;
	const options: EngineOptions = {
		...relayOptionsOf(config),
		preferredPorts: await findPreferredPorts(parts),
		hooks,
		log: log.child({ room: "proxies" }),
	};
	const openStream = (fallbackReason?: string): OpenedEngine => ({
		engine: createStreamEngine({ ...options, udpAddress: (family) => node.addressOf(family) }),
		fallbackReason,
	});
	if (config.relay === "stream") return openStream();
	try {
		const { createSyscallEngine } = await load();
		const engine = createSyscallEngine({ ...options, workers: config.workers });
		return { engine, fallbackReason: undefined };
	} catch (error) {
		if (config.relay === "syscall") throw new NoSyscallEngineError(error);
		const reason = describeError(error);
		const unused = config.workers === undefined ? {} : { withoutEffect: "--workers" };
		log.warn(
			{ reason, ...unused },
			"system calls cannot be made here, one thread relays without them",
		);
		return openStream(reason);
	}
}

/** The engine that {@link openEngine} takes, unless it refuses. */
export async function engineNameFor(
	{ relay }: Config,
	load: () => Promise<unknown> = loadSyscallEngine,
): Promise<RelayEngine["name"]> {
	if (relay !== "auto") return relay;
	try {
		await load();
		return "syscall";
	} catch {
		return "stream";
	}
}

/**
 * Not at the top: where the library for system calls is missing, its module cannot even be loaded.
 *
 * @throws where this process cannot make the system calls that it takes.
 */
async function loadSyscallEngine(): Promise<SyscallModule> {
	const problem = platformProblem(platform(), arch());
	if (problem !== undefined) throw new Error(problem);
	const { testSystemCalls } = await import("../proxies/syscall/self-test.ts");
	testSystemCalls();
	return await import("../proxies/syscall/syscall-engine.ts");
}

/** `--relay syscall` where that engine cannot work. */
class NoSyscallEngineError extends UserProxyError {
	readonly code = "NO_SYSCALL_ENGINE";
	readonly retriable = false;

	constructor(cause: unknown) {
		const why = describeError(cause);
		super(`Cannot relay with --relay syscall: ${why} (--relay stream does without)`, {
			cause,
		});
	}
}

/** What the configuration says about relaying, in the engine's words. */
export function relayOptionsOf(config: Config): RelayOptions {
	return {
		bindAddress: config.bindAddress,
		portRange: config.proxyPortRange,
		dialTimeoutsMs: config.dialTimeoutsMs,
		halfCloseIdleMs: config.halfCloseIdleMs,
		drainRemovedMs:
			config.drainRemovedEndpointsMs === 0 ? undefined : config.drainRemovedEndpointsMs,
		udp: {
			idleMs: config.udpIdleMs,
			firstAnswerMs: config.udpFirstAnswerMs,
			maxFlows: config.maxUdpFlows,
		},
	};
}

/**
 * The proxy ports that a predecessor's rules in the kernel lead to: taken again, nobody notices the
 * change; left alone by all others, no client reaches a wrong Service meanwhile.
 */
export function preferredPortsOf(previous: readonly PreviousBinding[]): PreferredPorts {
	const ports = new Map<ServicePortKey, Port>();
	for (const { key, proxyPort } of previous) {
		if (key !== undefined && !ports.has(key)) ports.set(key, proxyPort);
	}
	return ports;
}

async function findPreferredPorts({ rules, log, signal }: EngineParts): Promise<PreferredPorts> {
	try {
		await rules.open(signal);
		const ports = preferredPortsOf(await rules.previous(signal));
		if (ports.size > 0) log.info({ servicePorts: ports.size }, "rules of a predecessor found");
		return ports;
	} catch (error) {
		if (signal.aborted) return new Map();
		// Tried again by each pass of the rules.
		log.error({ error: describeError(error) }, "cannot use the packet filter yet");
		return new Map();
	}
}
