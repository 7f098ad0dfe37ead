import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { showControlCharacters } from "./control-characters.ts";

/** Messages that wait for their turn at most; above it the oldest status lines are not worth sending. */
const MAX_WAITING = 8;

export interface SystemdOptions {
	/** NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID; without the first everything here does nothing. */
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly pid: number;
	/**
	 * Runs a program with this process's environment (it reads NOTIFY_SOCKET), bounded in time;
	 * rejects when it fails. Node has no UNIX datagram sockets, so `systemd-notify` sends for us.
	 */
	readonly runCommand: (file: string, args: readonly string[]) => Promise<unknown>;
	/** False when the daemon hangs and should be restarted: see HealthVerdict.progressing. */
	readonly isProgressing: () => boolean;
	readonly log: Log;
	/** CLOCK_MONOTONIC in microseconds. */
	readonly monotonicUs?: () => bigint;
}

/**
 * Tells systemd about start, reload and stop, and that the daemon is alive.
 *
 * Messages are sent one after the other. Nothing here rejects or throws: systemd not listening is
 * logged once and changes nothing for the traffic. The unit needs NotifyAccess=all, since a child
 * sends.
 */
export class SystemdNotifier {
	readonly #options: SystemdOptions;
	readonly #isOn: boolean;
	readonly #failure: RecurringFailure;
	readonly #hang: RecurringFailure;
	readonly #watchdog: NodeJS.Timeout | undefined;
	#last: Promise<void> = Promise.resolve();
	#waiting = 0;
	#status = "";

	constructor(options: SystemdOptions) {
		const { env, pid, log } = options;
		this.#options = options;
		this.#isOn = (env["NOTIFY_SOCKET"] ?? "") !== "";
		this.#failure = new RecurringFailure({
			log,
			failing: "cannot notify systemd",
			recovered: "systemd is notified again",
		});
		this.#hang = new RecurringFailure({
			log,
			level: "error",
			failing: "not telling systemd's watchdog that all is well",
			recovered: "telling systemd's watchdog again that all is well",
		});
		const intervalMs = this.#isOn ? watchdogIntervalMs(env, pid) : undefined;
		if (intervalMs !== undefined) {
			this.#watchdog = setInterval(() => this.#tick(), intervalMs).unref();
		}
	}

	/** The first complete state is in force. Also ends a reload. */
	async ready(status: string): Promise<void> {
		await this.#send(["READY=1", this.#statusMessage(status)]);
	}

	async reloading(): Promise<void> {
		const now = this.#options.monotonicUs?.() ?? process.hrtime.bigint() / 1_000n;
		// Type=notify-reload wants the time, Type=notify ignores it.
		await this.#send(["RELOADING=1", `MONOTONIC_USEC=${now}`]);
	}

	async stopping(status: string): Promise<void> {
		await this.#send(["STOPPING=1", this.#statusMessage(status)]);
	}

	/** One line for `systemctl status`. Sent only when it differs from the one before. */
	async status(text: string): Promise<void> {
		const message = this.#statusMessage(text);
		if (message === this.#status || this.#waiting >= MAX_WAITING) return;
		await this.#send([message]);
	}

	/** Ends the watchdog's messages; resolves when the last message is sent. */
	async close(): Promise<void> {
		clearInterval(this.#watchdog);
		await this.#last;
	}

	#tick(): void {
		if (!this.#options.isProgressing()) {
			this.#hang.failed("the daemon makes no progress");
			return;
		}
		this.#hang.succeeded();
		// One that waits says the same.
		if (this.#waiting === 0) void this.#send(["WATCHDOG=1"]);
	}

	async #send(messages: readonly string[]): Promise<void> {
		if (!this.#isOn) return;
		this.#status = messages.find((message) => message.startsWith("STATUS=")) ?? this.#status;
		this.#waiting += 1;
		this.#last = this.#last.then(async () => await this.#run(messages));
		await this.#last;
	}

	async #run(messages: readonly string[]): Promise<void> {
		try {
			await this.#options.runCommand("systemd-notify", messages);
			this.#failure.succeeded();
		} catch (error) {
			this.#failure.failed(describeError(error));
		} finally {
			this.#waiting -= 1;
		}
	}

	/** A line break would begin another message: MAINPID=1, say, out of somebody's Service name. */
	#statusMessage(text: string): string {
		return `STATUS=${showControlCharacters(text)}`;
	}
}

/** Half of what systemd waits for, as sd_watchdog_enabled(3) advises; undefined: no watchdog for us. */
function watchdogIntervalMs(env: SystemdOptions["env"], pid: number): number | undefined {
	const timeoutUs = Number(env["WATCHDOG_USEC"]);
	const watchedPid = env["WATCHDOG_PID"] ?? "";
	if (!Number.isInteger(timeoutUs) || timeoutUs <= 0) return undefined;
	if (watchedPid !== "" && watchedPid !== String(pid)) return undefined;
	return Math.max(1, timeoutUs / 2_000);
}
