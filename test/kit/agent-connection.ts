import { connect, type Socket } from "node:net";
import { Answer, bounded } from "./agent-clients.ts";
import { pattern } from "./agent-pattern.ts";
import type { ConnectionState } from "./agent-protocol.ts";

const MAX_WAIT_MS = 60_000;
const MAX_WRITE_BYTES = 64 * 1024 * 1024;

/**
 * One client connection that a test holds and drives step by step.
 *
 * Reads only while {@link read} waits: a test that does not ask leaves the bytes in the kernel, which
 * is how back-pressure is made.
 */
export class HeldConnection {
	readonly #socket: Socket;
	readonly #answer = new Answer();
	readonly #seen: { ended: boolean; closed: boolean } = { ended: false, closed: false };
	/** Called whenever something has happened on the socket. */
	readonly #lookers = new Set<() => void>();
	#error: string | undefined;
	#localPort: number | undefined;
	#wrote = 0;

	constructor(options: { address: string; port: number; localAddress?: string }) {
		const { address, port, localAddress } = options;
		this.#socket = connect({
			host: address,
			port,
			allowHalfOpen: true,
			noDelay: true,
			...(localAddress === undefined ? {} : { localAddress }),
		});
		this.#socket.on("error", (error: NodeJS.ErrnoException) => {
			this.#error ??= error.code ?? error.message;
			this.#changed();
		});
		this.#socket.once("connect", () => {
			this.#localPort = this.#socket.localPort;
			this.#changed();
		});
		this.#socket.once("end", () => {
			this.#seen.ended = true;
			this.#changed();
		});
		this.#socket.once("close", () => {
			this.#seen.closed = true;
			this.#changed();
		});
		this.#socket.on("data", (chunk: Buffer) => {
			this.#answer.add(chunk);
			this.#changed();
		});
		this.#socket.pause();
	}

	/** Rejects with the system's error, or after `timeoutMs`. */
	async opened(timeoutMs = 5000): Promise<void> {
		const open = await this.#until(
			() => this.#localPort !== undefined || this.#seen.closed,
			timeoutMs,
		);
		if (open && this.#error === undefined && !this.#seen.closed) return;
		this.#socket.destroy();
		throw Object.assign(new Error(`Cannot connect: ${this.#error ?? "no answer"}`), {
			code: this.#error ?? "TIMEOUT",
		});
	}

	/** @returns flushed: false when the kernel has not taken everything within `timeoutMs`. */
	async write(text = "", bytes = 0, timeoutMs = 5000): Promise<{ flushed: boolean }> {
		const size = bounded("sendBytes", bytes, MAX_WRITE_BYTES);
		let flushed = false;
		this.#socket.write(Buffer.concat([Buffer.from(text), pattern(size, this.#wrote)]), () => {
			flushed = true;
			this.#changed();
		});
		this.#wrote += size;
		await this.#until(() => flushed || this.#seen.closed, timeoutMs);
		return { flushed: flushed && this.#error === undefined };
	}

	/** Reads until so many bytes came in all, the peer ended, or the connection is closed. */
	async read(until: "end" | "closed" | number, timeoutMs = 5000): Promise<ConnectionState> {
		this.#socket.resume();
		const reached = () => {
			if (this.#seen.closed) return true;
			if (until === "closed") return false;
			return this.#seen.ended || (typeof until === "number" && this.#answer.bytes >= until);
		};
		await this.#until(reached, timeoutMs);
		this.#socket.pause();
		return this.state();
	}

	async finish(how: "end" | "reset" | "destroy"): Promise<ConnectionState> {
		if (how === "end") this.#socket.end();
		else if (how === "reset") this.#socket.resetAndDestroy();
		else this.#socket.destroy();
		if (how !== "end") await this.#until(() => this.#seen.closed, 1000);
		return this.state();
	}

	state(): ConnectionState {
		return {
			text: this.#answer.takeText(),
			bytes: this.#answer.bytes,
			sha256: this.#answer.sha256(),
			ended: this.#seen.ended,
			closed: this.#seen.closed,
			error: this.#error,
			localPort: this.#localPort,
		};
	}

	/** @returns false when the condition did not come true in time. */
	async #until(reached: () => boolean, timeoutMs: number): Promise<boolean> {
		bounded("timeoutMs", timeoutMs, MAX_WAIT_MS);
		if (reached()) return true;
		return await new Promise<boolean>((resolve) => {
			const done = (result: boolean) => {
				clearTimeout(timer);
				this.#lookers.delete(look);
				resolve(result);
			};
			const look = () => {
				if (reached()) done(true);
			};
			const timer = setTimeout(() => done(reached()), timeoutMs);
			this.#lookers.add(look);
		});
	}

	#changed(): void {
		for (const look of this.#lookers) look();
	}
}
