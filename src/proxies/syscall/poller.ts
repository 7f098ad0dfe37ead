import {
	close,
	closeRange,
	EINTR,
	EpollEvents,
	epollAdd,
	epollCreate,
	epollDelete,
	epollWait,
} from "../../system/libc.ts";
import { systemError } from "../../system/system-error.ts";
import type { CallOwner, CallQueue, QueuedOperation } from "./call-queue.ts";

/** Events of one wait: enough to serve many connections by one call, few enough to look at others between. */
const MAX_EVENTS = 256;

/** What is told of events of a descriptor. */
export interface PollHandler {
	onEvents(fd: number, events: number): void;
}

/** Of a descriptor that is added a little later. */
export interface LatePollHandler extends PollHandler {
	/** It will get no events. @param result -errno. */
	onNotPolled(fd: number, result: number): void;
}

/**
 * Waits for events of many descriptors, with epoll.
 *
 * A descriptor that is given to {@link closeLater} gets no event from then on, and is closed when
 * the events of the present wait have been told: so its number is nobody else's before that.
 *
 * The kernel may tell of it even then. A child process has it, too, from its fork to its exec, and while
 * it does epoll goes on under the old number. So each one that is added has a tag, and events with
 * another tag than the number has now are nobody's.
 */
export class Poller implements CallOwner {
	/** How often it has waited. */
	turns = 0;
	readonly #calls: CallQueue;
	readonly #epollFd: number;
	readonly #events: EpollEvents = new EpollEvents(MAX_EVENTS);
	readonly #handlers: (PollHandler | LatePollHandler | undefined)[] = [];
	/** By descriptor: of the last one that was added with that number. */
	readonly #tags: number[] = [];
	#lastTag = 0;
	readonly #onClose: (fd: number) => void;
	#toClose: number[] = [];

	/** @param onClose told of each descriptor that is closed here. */
	constructor(calls: CallQueue, onClose: (fd: number) => void) {
		this.#calls = calls;
		this.#onClose = onClose;
		this.#epollFd = epollCreate();
		if (this.#epollFd < 0) throw systemError("epoll_create1", this.#epollFd);
	}

	/** The descriptor of epoll itself. */
	get fd(): number {
		return this.#epollFd;
	}

	/** @returns 0, or -errno. */
	add(fd: number, events: number, handler: PollHandler): number {
		const before = { tag: this.#tags[fd], handler: this.#handlers[fd] };
		const result = epollAdd(this.#epollFd, fd, events, this.#expect(fd, handler));
		if (result < 0) {
			// EEXIST: the one before goes on to be told.
			this.#tags[fd] = before.tag ?? 0;
			this.#handlers[fd] = before.handler;
		}
		return result;
	}

	/** The same with the next calls that are made. */
	addSoon(fd: number, events: number, handler: LatePollHandler): void {
		this.#calls.epollAdd(this.#epollFd, fd, events, this.#expect(fd, handler), this);
	}

	/** Of an {@link addSoon}. */
	onCall(_operation: QueuedOperation, result: number, fd: number): void {
		const handler = this.#handlers[fd];
		if (result < 0 && handler !== undefined && "onNotPolled" in handler) {
			handler.onNotPolled(fd, result);
		}
	}

	/** Its events are told to another one from now on. */
	handOver(fd: number, handler: PollHandler): void {
		this.#handlers[fd] = handler;
	}

	/** No event of it is told any more; it stays open. */
	remove(fd: number): void {
		this.#handlers[fd] = undefined;
		epollDelete(this.#epollFd, fd);
	}

	closeLater(fd: number): void {
		this.#handlers[fd] = undefined;
		this.#toClose.push(fd);
	}

	/**
	 * Waits for events and tells each to its handler. To be called when all calls that are queued are made: what is
	 * not added yet could not wake us.
	 *
	 * @param timeoutMs -1: until there is an event.
	 * @returns how many there were.
	 */
	wait(timeoutMs: number): number {
		this.turns += 1;
		const count = epollWait(this.#epollFd, this.#events, timeoutMs);
		if (count < 0) {
			if (count === -EINTR) return 0;
			throw systemError("epoll_wait", count);
		}
		for (let index = 0; index < count; index += 1) {
			const fd = this.#events.fd(index);
			if (this.#events.tag(index) !== this.#tags[fd]) continue;
			this.#handlers[fd]?.onEvents(fd, this.#events.events(index));
		}
		return count;
	}

	/** Closes what was given to {@link closeLater}; to be called after each wait and what follows from it. */
	closeDue(): void {
		if (this.#toClose.length === 0) return;
		const due = this.#toClose;
		this.#toClose = [];
		// Before: the numbers may be another thread's as soon as they are closed.
		for (const fd of due) this.#onClose(fd);
		if (this.#calls.isRing) {
			for (const fd of due) this.#calls.close(fd);
			this.#calls.run();
			return;
		}
		if (due.length > 1) due.sort((a, b) => a - b);
		for (let first = 0; first < due.length; ) {
			let next = first + 1;
			while (next < due.length && due[next] === (due[first] ?? 0) + next - first) next += 1;
			closeAll(due[first] ?? 0, next - first);
			first = next;
		}
	}

	/** @returns the tag that events of it are to have. */
	#expect(fd: number, handler: PollHandler): number {
		const tag = (this.#lastTag + 1) | 0;
		this.#lastTag = tag;
		this.#tags[fd] = tag;
		this.#handlers[fd] = handler;
		return tag;
	}

	close(): void {
		this.closeDue();
		close(this.#epollFd);
	}
}

/** Descriptors whose numbers follow one another: both of a connection often do. */
function closeAll(first: number, count: number): void {
	if (count > 1 && closeRange(first, first + count - 1) === 0) return;
	for (let fd = first; fd < first + count; fd += 1) close(fd);
}
