import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { Clock } from "../../shared/clock.ts";
import { clearEventfd, EPOLLIN } from "./libc.ts";
import type { ConnectionEvent, FromWorker, ToWorker, WorkerSettings } from "./messages.ts";
import { TcpWorker } from "./tcp-worker.ts";

/*
 * One worker: a thread whose event loop never turns, since it waits in epoll. Messages are looked for when
 * the eventfd says that there are some, a few between two waits, so that thousands of changed Services
 * hold up no connection.
 */

/** Messages that are read between two waits for events. */
const MESSAGES_PER_TURN = 8;

/** What happened is told in batches, this long after the first of one at the latest. */
const TELL_AFTER_MS = 10;
const TELL_AT_EVENTS = 256;

const FOREVER_MS = 60_000;

if (parentPort === null) throw new Error("Cannot run outside of a worker thread");
const port = parentPort;
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what SyscallEngine gives to it
const settings = workerData as WorkerSettings;

let nowMs = performance.now();
const clock: Clock = { monotonicMs: () => nowMs, wallMs: () => Date.now() };

let happened: ConnectionEvent[] = [];
let firstHappenedAtMs = 0;
let isWoken = true;
let isStopped = false;

const worker = new TcpWorker({
	settings,
	clock,
	happened(event) {
		if (happened.length === 0) firstHappenedAtMs = nowMs;
		happened.push(event);
	},
	onNews(listener, endpointKey, news) {
		if (settings.workers > 1) say({ kind: "news", listener, endpointKey, news });
	},
});
worker.poller.add(settings.wakeFd, EPOLLIN, {
	onEvents: () => {
		clearEventfd(settings.wakeFd);
		isWoken = true;
	},
});

try {
	while (!isStopped) {
		worker.turn(waitMs());
		nowMs = performance.now();
		if (isWoken) readMessages();
		tellWhatHappened();
	}
	worker.stop("stopped");
} catch (error) {
	// Each connection has its record, whatever became of it.
	worker.stop("relay-failed");
	tellNow();
	throw error;
}
tellNow();
say({ kind: "stopped" });
port.close();

function waitMs(): number {
	if (isWoken) return 0;
	return happened.length > 0 ? TELL_AFTER_MS : FOREVER_MS;
}

function readMessages(): void {
	for (let count = 0; count < MESSAGES_PER_TURN; count += 1) {
		const received = receiveMessageOnPort(port);
		if (received === undefined) {
			isWoken = false;
			return;
		}
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what SyscallEngine sends
		follow(received.message as ToWorker);
	}
}

function follow(message: ToWorker): void {
	switch (message.kind) {
		case "open":
			worker.open(message.listener, message.fds, message.servicePort, message);
			return;
		case "update":
			worker.update(message.listener, message.servicePort);
			return;
		case "release":
			worker.release(message.listener);
			say({ kind: "released", listener: message.listener });
			return;
		case "note":
			worker.note(message.listener, message.endpointKey, message.news);
			return;
		case "ask":
			// What has happened before is told before.
			tellNow();
			say({ kind: "answer", request: message.request, answer: answerTo(message.what) });
			return;
		case "stop":
			isStopped = true;
	}
}

function answerTo(what: Extract<ToWorker, { kind: "ask" }>["what"]) {
	if (what === "connections") return worker.connections();
	return what === "failing" ? worker.failing() : undefined;
}

function tellWhatHappened(): void {
	if (happened.length === 0) return;
	const isDue = nowMs - firstHappenedAtMs >= TELL_AFTER_MS;
	if (isDue || happened.length >= TELL_AT_EVENTS) tellNow();
}

function tellNow(): void {
	if (happened.length === 0) return;
	say({ kind: "happened", events: happened });
	happened = [];
}

function say(message: FromWorker): void {
	port.postMessage(message);
}
