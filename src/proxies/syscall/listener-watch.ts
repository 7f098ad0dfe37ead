import { codeOf } from "../../system/system-error.ts";
import type { Poller, PollHandler } from "./poller.ts";
import type { ServedPort } from "./served-port.ts";

/** A socket that is not watched rests so long: what lacked may be there again. */
const REST_MS = 100;

/** A socket that the clients of a ServicePort come to. */
export interface WatchedSocket {
	readonly fd: number;
	/** That the handler wants to be told of. */
	readonly events: number;
	readonly handler: PollHandler;
	readonly served: ServedPort;
}

export interface ListenerWatchHost {
	readonly poller: Poller;
	after(durationMs: number, run: () => void): void;
	/** Nothing of that ServicePort's clients is heard at one of its sockets for the time being. */
	onUnwatched(served: ServedPort, code: string): void;
}

/**
 * Has the sockets of ServicePorts watched for as long as they are served. One that the kernel does not take, for want
 * of memory or of epoll's watches, is offered again and again: its clients wait in the kernel, and would for ever.
 */
export class ListenerWatch {
	readonly #host: ListenerWatchHost;
	/** By descriptor: not watched for the time being, that which has waited longest first. */
	readonly #resting = new Map<number, WatchedSocket>();
	#isRetryDue = false;

	constructor(host: ListenerWatchHost) {
		this.#host = host;
	}

	begin(socket: WatchedSocket): void {
		this.#offer(socket);
	}

	/** Nothing is told of it for a moment, up to {@link REST_MS}. */
	pause(socket: WatchedSocket): void {
		this.#host.poller.remove(socket.fd);
		this.#rest(socket);
	}

	/** Nothing is told of it any more; it stays open. */
	end(fd: number): void {
		if (!this.#resting.delete(fd)) this.#host.poller.remove(fd);
	}

	/** @returns whether it is watched; else it rests. */
	#offer(socket: WatchedSocket): boolean {
		const { fd, events, handler, served } = socket;
		const result = this.#host.poller.add(fd, events, handler);
		if (result >= 0) return true;
		this.#host.onUnwatched(served, codeOf(result));
		this.#rest(socket);
		return false;
	}

	#rest(socket: WatchedSocket): void {
		this.#resting.set(socket.fd, socket);
		if (this.#isRetryDue) return;
		this.#isRetryDue = true;
		this.#host.after(REST_MS, () => {
			this.#isRetryDue = false;
			this.#retry();
		});
	}

	/**
	 * Up to the first that fails: what that one lacks the others lack, and thousands may wait. It goes to the end: should it
	 * be its own fault, the others have their turn.
	 */
	#retry(): void {
		for (const [fd, socket] of this.#resting) {
			this.#resting.delete(fd);
			if (!this.#offer(socket)) return;
		}
	}
}
