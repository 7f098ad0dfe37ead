import { Worker } from "node:worker_threads";
import type { EndpointNews } from "../../balancing/pick.ts";
import { close, eventfd, signalEventfd } from "../../system/libc.ts";
import { systemError } from "../../system/system-error.ts";
import type { EngineHooks } from "../engine.ts";
import type { NodeFault } from "../node-faults.ts";
import type { UdpFault } from "../udp-faults.ts";
import type {
	Answers,
	ConnectionEvent,
	FromWorker,
	Question,
	ToWorker,
	WorkerSettings,
} from "./messages.ts";

/** The worker's program beside this file, before and after the build. */
const PROGRAM = new URL(
	`./worker-main${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`,
	import.meta.url,
);

/** A worker that has not answered for so long is stuck, or has died meanwhile. */
const ANSWER_MS = 5_000;

export interface WorkerHandleOptions {
	readonly settings: Omit<WorkerSettings, "wakeFd">;
	readonly hooks: EngineHooks;
	/** It has found out something of an endpoint. */
	onNews(listener: number, endpointKey: string, news: EndpointNews): void;
	onFault(fault: NodeFault): void;
	onUdpFault(fault: UdpFault): void;
	onClientForgotten(): void;
	/** There is room for one of the connections that wait, in whichever worker. */
	onRoom(): void;
	/** It ended and nobody had stopped it. */
	onDeath(cause: unknown): void;
}

/** One worker thread, seen from the engine's. */
export class WorkerHandle {
	readonly #options: WorkerHandleOptions;
	readonly #worker: Worker;
	readonly #wakeFd: number;
	readonly #questions = new Map<number, (answer: Answers[Question] | undefined) => void>();
	readonly #releases = new Map<number, () => void>();
	readonly #ended: Promise<void>;
	#nextRequest = 1;
	#isStopping: boolean = false;
	#hasEnded: boolean = false;

	/** @throws where the system has no thread, memory or descriptors for one more. */
	constructor(options: WorkerHandleOptions) {
		this.#options = options;
		this.#wakeFd = eventfd();
		if (this.#wakeFd < 0) throw systemError("eventfd", this.#wakeFd);
		const settings: WorkerSettings = { ...options.settings, wakeFd: this.#wakeFd };
		try {
			this.#worker = new Worker(PROGRAM, { workerData: settings, stdout: false, stderr: false });
		} catch (error) {
			close(this.#wakeFd);
			throw error;
		}
		this.#worker.on("message", (message: FromWorker) => this.#onMessage(message));
		let cause: unknown = new Error("the worker ended by itself");
		this.#worker.on("error", (error) => {
			cause = error;
		});
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#ended = promise;
		this.#worker.on("exit", () => {
			// From now on the number of the eventfd may be another's.
			this.#hasEnded = true;
			close(this.#wakeFd);
			for (const answer of this.#questions.values()) answer(undefined);
			this.#questions.clear();
			for (const released of this.#releases.values()) released();
			this.#releases.clear();
			resolve();
			if (!this.#isStopping) options.onDeath(cause);
		});
	}

	/** Does nothing where the worker has ended. */
	tell(message: ToWorker): void {
		if (this.#hasEnded) return;
		this.#worker.postMessage(message);
		const { index, shared } = this.#options.settings;
		// One of many that follow one another needs no call into the kernel.
		if (Atomics.exchange(shared.woken, index, 1) === 0) signalEventfd(this.#wakeFd);
	}

	/** @returns undefined from a worker that is gone, or gives no answer. */
	async ask<Q extends Question>(what: Q): Promise<Answers[Q] | undefined> {
		if (this.#hasEnded) return undefined;
		const request = this.#nextRequest;
		this.#nextRequest += 1;
		const { promise, resolve } = Promise.withResolvers<Answers[Question] | undefined>();
		this.#questions.set(request, resolve);
		const timer = setTimeout(() => resolve(undefined), ANSWER_MS);
		this.tell({ kind: "ask", request, what });
		const answer = await promise;
		clearTimeout(timer);
		this.#questions.delete(request);
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a worker answers what it is asked
		return answer as Answers[Q] | undefined;
	}

	/** Resolves when the worker does not use the listener's sockets any more. */
	async release(listener: number): Promise<void> {
		if (this.#hasEnded) return;
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#releases.set(listener, resolve);
		this.tell({ kind: "release", listener });
		await promise;
	}

	/** Ends all its connections as "stopped", and the thread. */
	async stop(): Promise<void> {
		if (!this.#isStopping) {
			this.#isStopping = true;
			this.tell({ kind: "stop" });
		}
		await this.#ended;
	}

	#onEvent(event: ConnectionEvent): void {
		const { hooks } = this.#options;
		if (event === "client-forgotten") this.#options.onClientForgotten();
		else if ("record" in event) hooks.onConnectionEnd(event.record);
		else if ("start" in event) hooks.onConnectionStart(event.start);
		else if ("fault" in event) this.#options.onFault(event.fault);
		else this.#options.onUdpFault(event.udpFault);
	}

	#onMessage(message: FromWorker): void {
		switch (message.kind) {
			case "happened":
				for (const counts of message.counts) this.#options.hooks.onCounted(counts);
				for (const event of message.events) this.#onEvent(event);
				return;
			case "answer":
				this.#questions.get(message.request)?.(message.answer);
				return;
			case "released":
				this.#releases.get(message.listener)?.();
				this.#releases.delete(message.listener);
				return;
			case "room":
				this.#options.onRoom();
				return;
			case "news":
				this.#options.onNews(message.listener, message.endpointKey, message.news);
		}
	}
}
