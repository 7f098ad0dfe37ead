import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { Clock } from "../../shared/clock.ts";
import { clearEventfd, EPOLLIN } from "../../system/libc.ts";
import { must } from "../../system/system-error.ts";
import {
	COUNTER_COUNT,
	COUNTERS,
	FIRST_DROP_COUNTER,
	type FromWorker,
	type ToWorker,
	type WorkerSettings,
} from "./messages.ts";
import { askForShortSlices } from "./scheduling.ts";
import { TcpWorker } from "./tcp-worker.ts";
import { Teller } from "./teller.ts";
import { UdpWorker } from "./udp-worker.ts";

/*
 * One worker: a thread whose event loop never turns, since it waits in epoll. Messages are looked for when
 * the eventfd says that there are some, a few between two waits until there are none, so that thousands of
 * changed Services hold up no connection.
 */

/** Messages that are read between two waits for events. */
const MESSAGES_PER_TURN = 8;

const FOREVER_MS = 60_000;

askForShortSlices();

if (parentPort === null) throw new Error("Cannot run outside of a worker thread");
const port = parentPort;
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what SyscallEngine gives to it
const settings = workerData as WorkerSettings;

let nowMs = performance.now();
const clock: Clock = { monotonicMs: () => nowMs, wallMs: () => Date.now() };

/** What a predecessor had counted. */
const before = settings.shared.counters.slice(
	settings.index * COUNTER_COUNT,
	(settings.index + 1) * COUNTER_COUNT,
);
let toldDropped = 0;
let toldEvicted = 0;

const teller = new Teller(settings.interest, say);
let isWoken = true;
let isStopped = false;

const worker = new TcpWorker({
	settings,
	clock,
	teller,
	onRoom: () => say({ kind: "room" }),
	onNews(listener, endpointKey, news) {
		if (settings.workers > 1) say({ kind: "news", listener, endpointKey, news });
	},
});
const udp = new UdpWorker(
	{
		hooks: {
			onConnectionStart(start) {
				if (teller.interest.starts) teller.happened({ start }, nowMs);
				else teller.countStart(start.protocol, start.service, nowMs);
			},
			onConnectionEnd: (record) => teller.ended(record, nowMs),
		},
		clock,
		createBalancer: () => {
			throw new TypeError("Cannot choose here: each listener is opened with its balancer");
		},
		nextId: () => worker.newId(),
		repeat: (periodMs, run) => worker.repeat(periodMs, run),
		leadsBack: (protocol, endpoint) => worker.leadsBack(protocol, endpoint),
		onUdpFault: (fault) => teller.udpFault(fault, nowMs),
		budget: worker.budget,
	},
	settings.udp,
	worker,
);
const wakeHandler = {
	onEvents(): void {
		clearEventfd(settings.wakeFd);
		isWoken = true;
	},
};
// Without it this thread could not be reached: it ends, and another one is tried.
must("epoll_ctl", worker.poller.add(settings.wakeFd, EPOLLIN, wakeHandler));

try {
	while (!isStopped) {
		worker.turn(waitMs());
		udp.flush();
		tellUdpCounts();
		nowMs = performance.now();
		if (isWoken) readMessages();
		teller.tellDue(nowMs);
	}
	udp.stop("stopped");
	worker.stop("stopped");
	tellUdpCounts();
} catch (error) {
	// Each connection has its record, whatever became of it.
	udp.stop("relay-failed");
	worker.stop("relay-failed");
	teller.tellNow();
	throw error;
}
teller.tellNow();
port.close();

function waitMs(): number {
	if (isWoken) return 0;
	return Math.min(FOREVER_MS, Math.max(0, Math.ceil(teller.dueInMs(nowMs))));
}

function readMessages(): void {
	for (let count = 0; count < MESSAGES_PER_TURN; count += 1) {
		const received = receiveMessageOnPort(port) ?? receiveLast();
		if (received === undefined) {
			isWoken = false;
			return;
		}
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what SyscallEngine sends
		follow(received.message as ToWorker);
	}
}

/** From now on we have to be woken; one who found us awake until now has sent its message before this looks. */
function receiveLast(): ReturnType<typeof receiveMessageOnPort> {
	const { shared, index } = settings;
	Atomics.store(shared.woken, index, 0);
	const last = receiveMessageOnPort(port);
	if (last !== undefined) Atomics.store(shared.woken, index, 1);
	return last;
}

function follow(message: ToWorker): void {
	switch (message.kind) {
		case "open":
			(message.protocol === "tcp" ? worker.listeners : udp).open(message);
			return;
		case "update":
			udp.update(message.listener, message.servicePort);
			worker.listeners.update(message.listener, message.servicePort);
			return;
		case "release":
			udp.release(message.listener);
			worker.listeners.release(message.listener);
			tellUdpCounts();
			teller.tellNow();
			say({ kind: "released", listener: message.listener });
			return;
		case "note":
			udp.note(message.listener, message.endpointKey, message.news);
			worker.listeners.note(message.listener, message.endpointKey, message.news);
			return;
		case "want":
			teller.interest = message.interest;
			return;
		case "room":
			worker.letInOne();
			return;
		case "ask":
			// What has happened before is told before.
			teller.tellNow();
			say({ kind: "answer", request: message.request, answer: answerTo(message.what) });
			return;
		case "stop":
			isStopped = true;
	}
}

function answerTo(what: Extract<ToWorker, { kind: "ask" }>["what"]) {
	switch (what) {
		case "connections":
			return [...worker.connections(), ...udp.connections()];
		case "failing":
			return new Map([...worker.listeners.failing(), ...udp.failing()]);
		case "recent":
			return teller.recent();
		case "nothing":
			return undefined;
	}
}

/** A few numbers for the other threads, where they have changed. */
function tellUdpCounts(): void {
	const { relay } = udp;
	const { counters } = settings.shared;
	const first = settings.index * COUNTER_COUNT;
	counters[first + COUNTERS.udpFlows] = relay.count();
	const isSame = toldDropped === relay.droppedDatagrams() && toldEvicted === relay.evictedFlows();
	if (isSame) return;
	toldDropped = relay.droppedDatagrams();
	toldEvicted = relay.evictedFlows();
	counters[first + COUNTERS.evictedFlows] = (before[COUNTERS.evictedFlows] ?? 0) + toldEvicted;
	for (const [index, count] of [...relay.droppedByReason().values()].entries()) {
		const at = FIRST_DROP_COUNTER + index;
		counters[first + at] = (before[at] ?? 0) + count;
	}
}

function say(message: FromWorker): void {
	port.postMessage(message);
}
