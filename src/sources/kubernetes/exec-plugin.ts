import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../shared/clock.ts";
import type { Log } from "../../shared/log.ts";
import { type ExecCredential, parseExecCredential } from "./exec-credential.ts";
import type { ExecPluginConfig } from "./exec-plugin-config.ts";
import { runExecPlugin } from "./run-exec-plugin.ts";

export interface ExecPluginLimits {
	/** A plugin that takes longer is told of, in milliseconds. */
	readonly noticeMs: number;
	/** ... and killed with its children after this. */
	readonly killMs: number;
}

/** A plugin may start an interpreter on a node that is booting, and ask a cloud over a slow line. */
export const DEFAULT_PLUGIN_LIMITS: ExecPluginLimits = { noticeMs: 5_000, killMs: 60_000 };

/** A killed process that the kernel holds on to (a dead disk, say) is waited for no longer than this. */
const CLOSE_MS = 2_000;

export interface ExecPluginOptions {
	readonly config: ExecPluginConfig;
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly clock: Clock;
	readonly log: Log;
	readonly limits: ExecPluginLimits;
	/** Kills the plugin with its children; none is started after it. */
	readonly signal: AbortSignal;
}

/**
 * An exec plugin and the credential that it gave last, until that expires. Owns the plugin's process:
 * client-node's own runner can neither be stopped nor does it give its child out.
 */
export class ExecPlugin {
	readonly #options: ExecPluginOptions;
	#credential: ExecCredential | undefined;
	#running: Promise<string> | undefined;
	#saidWaiting = false;

	constructor(options: ExecPluginOptions) {
		this.#options = options;
	}

	get config(): ExecPluginConfig {
		return this.#options.config;
	}

	/**
	 * Not to be called again before it has ended: each call may start the plugin.
	 *
	 * @throws {ExecPluginError}
	 */
	async credential(): Promise<ExecCredential> {
		const { clock, config } = this.#options;
		const { expiresAtMs = Number.POSITIVE_INFINITY } = this.#credential ?? {};
		if (this.#credential !== undefined && expiresAtMs > clock.wallMs()) return this.#credential;
		this.#credential = parseExecCredential(config.command, await this.#run());
		return this.#credential;
	}

	/** The server refused what it gave: the next call asks the plugin again. */
	forget(): void {
		this.#credential = undefined;
	}

	/** To be called after the abort: resolves when the plugin is gone. */
	async closed(): Promise<void> {
		if (this.#running === undefined) return;
		await Promise.race([this.#running.catch(() => {}), delay(CLOSE_MS, undefined, { ref: false })]);
	}

	async #run(): Promise<string> {
		const { config, env, limits, log, clock, signal } = this.#options;
		const plugin = config.command;
		const startedMs = clock.monotonicMs();
		const notice = setTimeout(() => {
			// Once, until it answers: it may hang at each try.
			if (this.#saidWaiting) return;
			this.#saidWaiting = true;
			log.warn({ plugin, killedAfterMs: limits.killMs }, "waiting for the exec credential plugin");
		}, limits.noticeMs);
		this.#running = runExecPlugin(config, { env, signal, killMs: limits.killMs });
		try {
			const printed = await this.#running;
			if (this.#saidWaiting) {
				const tookMs = Math.round(clock.monotonicMs() - startedMs);
				log.info({ plugin, tookMs }, "exec credential plugin answered");
			}
			this.#saidWaiting = false;
			return printed;
		} finally {
			clearTimeout(notice);
			this.#running = undefined;
		}
	}
}
