import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";

import { anAddress, anEndpointAt, aServicePort } from "../builders.ts";
import { aUdpListener, aUdpRelay, type RelayParts, systemError } from "./udp-fakes.ts";

const A = anEndpointAt("10.2.1.2", 53);

async function aListener(parts: RelayParts = {}) {
	return await aUdpListener(aServicePort({ protocol: "udp", endpoints: [A] }), parts);
}

// The one timer is the relay's sweep.
beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});

afterEach(() => {
	vi.useRealTimers();
});

describe("the UDP relay's sweep", () => {
	/** What is said to each other, then silence: until when the flow lives, and how it ends. */
	it.each([
		["an answered flow for the idle time", 250, ["ask", "answer"], 250, "idle"],
		["a flow without an answer longer", 250, ["ask"], 5_000, "unanswered"],
		[
			"an answered flow longer once it was asked again",
			250,
			["ask", "answer", "ask"],
			5_000,
			"idle",
		],
		["no longer for a second answer", 250, ["ask", "answer", "answer"], 250, "idle"],
		[
			"a flow without an answer for the idle time, where that is longer",
			30_000,
			["ask"],
			30_000,
			"unanswered",
		],
	])("keeps %s", async (_what, idleMs, talk, lastsMs, end) => {
		const { net, receive, records, clock } = await aListener({ limits: { idleMs } });
		for (const word of talk) {
			clock.nowMs += 200;
			if (word === "ask") receive("question");
			else net.newest.answer("answer");
		}
		clock.nowMs += lastsMs - 1;
		vi.advanceTimersToNextTimer();
		expect(records).toEqual([]);
		clock.nowMs += 1;
		vi.advanceTimersToNextTimer();
		expect(records).toMatchObject([{ end }]);
		expect(net.openFlows).toEqual([]);
	});

	it("has one timer however many flows there are, and none without flows", async () => {
		const { receive, clock } = await aListener();
		expect(vi.getTimerCount()).toBe(0);
		for (let port = 1; port <= 50; port += 1) receive("question", port);
		expect(vi.getTimerCount()).toBe(1);
		clock.nowMs += 30_000;
		vi.advanceTimersToNextTimer();
		expect(vi.getTimerCount()).toBe(0);
	});

	it("stops with the relay", async () => {
		const { relay, receive } = await aListener();
		receive("question");
		await relay.close();
		expect(vi.getTimerCount()).toBe(0);
	});
});

describe("the UDP relay out of descriptors", () => {
	it("gives the descriptor of the least recently used flow to a new one (classic 9.1.35)", async () => {
		const { net, receive, records, budget } = await aListener({ descriptors: 3 });
		for (const port of [1, 2, 3, 4]) receive("question", port);
		expect(records).toMatchObject([{ end: "evicted", client: "10.1.0.2:1" }]);
		expect([net.openFlows.length, budget.used]).toEqual([3, 3]);
	});

	it("drops and counts when others hold them all (case 14d)", async () => {
		const { net, relay, receive, budget, counts } = await aListener({ descriptors: 3 });
		budget.take(3);
		receive("question");
		expect([net.flows.length, counts.starts, budget.used]).toEqual([0, 0, 3]);
		expect(relay.droppedByReason().get("no-descriptor")).toBe(1);
	});

	it.each(["EMFILE", "ENOBUFS", "EADDRINUSE"])(
		"ends another flow and tries once more when opening fails with %s (case 14c)",
		async (code) => {
			const { net, relay, receive, records, budget } = await aListener();
			receive("first", 1);
			net.failNext("connect", code);
			receive("second", 2);
			expect(records).toMatchObject([{ end: "evicted", client: "10.1.0.2:1" }]);
			expect(net.openFlows.map(({ taken }) => taken.map(({ text }) => text))).toEqual([["second"]]);
			expect([budget.used, relay.evictedFlows(), relay.droppedDatagrams()]).toEqual([1, 1, 0]);
		},
	);

	it("ends one other flow and no more when it fails again, drops the datagram, serves the next", async () => {
		const { net, relay, receive, records, budget } = await aListener();
		for (const port of [1, 2]) receive("first", port);
		for (let count = 0; count < 2; count += 1) net.failNext("connect", "EMFILE");
		receive("second", 3);
		expect(records).toMatchObject([
			{ end: "evicted", client: "10.1.0.2:1" },
			{
				end: "overload",
				endpoint: undefined,
				attempts: [{ outcome: "local-error" }, { outcome: "local-error" }],
			},
		]);
		expect(relay.droppedByReason().get("no-descriptor")).toBe(1);
		expect([relay.count(), budget.used]).toEqual([1, 1]);
		receive("third", 4);
		expect(net.newest.taken.map(({ text }) => text)).toEqual(["third"]);
	});

	it("counts an answer as use of the flow", async () => {
		const { net, receive, records } = await aListener({ limits: { maxFlows: 2 } });
		for (const port of [1, 2]) receive("question", port);
		net.flows[0]?.answer("answer");
		receive("question", 3);
		expect(records).toMatchObject([{ end: "evicted", client: "10.1.0.2:2" }]);
	});
});

describe("a UDP listener", () => {
	it("rejects with the system's error when it cannot be bound, and leaves nothing open (case 37d)", async () => {
		const { relay, net } = aUdpRelay();
		net.failNext("bind", "EADDRNOTAVAIL");
		const servicePort = aServicePort({ protocol: "udp", endpoints: [A] });
		const opening = relay.open(servicePort, { address: anAddress("10.0.0.1"), port: 0 });
		await expect(opening).rejects.toMatchObject({ code: "EADDRNOTAVAIL" });
		expect(net.sockets.map(({ closeCount }) => closeCount)).toEqual([1]);
	});

	it("is not opened by a relay that has been closed", async () => {
		const { relay, net } = aUdpRelay();
		await relay.close();
		const servicePort = aServicePort({ protocol: "udp", endpoints: [A] });
		await expect(relay.open(servicePort, { address: undefined, port: 0 })).rejects.toThrow(
			"closed",
		);
		expect(net.sockets.map(({ closeCount }) => closeCount)).toEqual([1]);
	});

	it("survives the errors of its socket (case 14c)", async () => {
		const { net, relay, socket, receive, faults } = await aListener();
		for (const code of ["ENOBUFS", "ECONNREFUSED", "EIO"]) socket.fail(code);
		expect(relay.droppedByReason().get("receive-failed")).toBe(3);
		expect(faults.map(({ errorCode }) => errorCode)).toEqual(["ENOBUFS", "ECONNREFUSED", "EIO"]);
		receive("question");
		expect(net.newest.taken).toHaveLength(1);
	});

	it("drops what comes from port 0 or no address: nothing could answer it", async () => {
		const { net, relay, receive } = await aListener();
		receive("question", 0);
		receive("question", 4_000, "nonsense");
		expect(relay.droppedByReason().get("bad-source")).toBe(2);
		expect(net.flows).toEqual([]);
	});

	it("tells clients apart by address and by port", async () => {
		const { net, relay, receive } = await aListener();
		receive("1", 4_000, "10.1.0.2");
		receive("2", 4_000, "10.1.0.3");
		receive("3", 4_001, "10.1.0.3");
		receive("4", 4_001, "10.1.0.3");
		expect(relay.count()).toBe(3);
		expect(net.flows.map(({ taken }) => taken.length)).toEqual([1, 1, 2]);
	});

	it("answers a link-local client in its zone", async () => {
		const endpoint = anEndpointAt("fd10::2", 53);
		const { net, socket, relay, receive } = await aUdpListener(
			aServicePort({ protocol: "udp", family: "ipv6", endpoints: [endpoint] }),
		);
		receive("question", 4_000, "fe80::9%eth0");
		expect(relay.connections()).toMatchObject([{ client: "[fe80::9]:4000" }]);
		net.newest.answer("answer");
		expect(socket.taken).toEqual([{ text: "answer", to: "fe80::9%eth0:4000" }]);
	});

	it("goes on when answers cannot be sent, and counts them", async () => {
		const { net, relay, socket, receive } = await aListener();
		receive("question");
		net.failNext("send", "EPERM");
		net.newest.answer("forbidden");
		socket.sendThrows = systemError("ERR_SOCKET_BAD_PORT");
		net.newest.answer("thrown");
		socket.sendThrows = undefined;
		socket.queueSize = 4 * 1024 * 1024;
		net.newest.answer("too much waits");
		socket.queueSize = 0;
		net.newest.answer("fine");
		expect(socket.taken.map(({ text }) => text)).toEqual(["fine"]);
		expect(relay.droppedByReason().get("answer-failed")).toBe(2);
		expect(relay.droppedByReason().get("answer-queue-full")).toBe(1);
	});

	it("failFlows() ends its flows as relay-failed, and serves the next datagram", async () => {
		const { relay, receive, records } = await aListener();
		for (const port of [1, 2]) receive("question", port);
		relay.failFlows();
		expect(records.map(({ end }) => end)).toEqual(["relay-failed", "relay-failed"]);
		receive("question");
		expect(relay.count()).toBe(1);
	});

	it("close() ends its flows and its part of the descriptors, and may be called again", async () => {
		const { net, relay, listener, socket, receive, records, budget } = await aListener();
		for (const port of [1, 2]) receive("question", port);
		listener.close();
		listener.close();
		receive("late");
		expect(records.map(({ end }) => end)).toEqual(["stopped", "stopped"]);
		expect(net.sockets.map(({ closeCount }) => closeCount)).toEqual([1, 1, 1]);
		expect([relay.count(), relay.connections(), budget.used]).toEqual([0, [], 0]);
		expect(socket.pending).toEqual([]);
	});
});

describe("what the UDP relay tells of", () => {
	it("is each datagram that it drops", async () => {
		const { faults, receive, listener } = await aListener();
		listener.update(aServicePort({ protocol: "udp", endpoints: [] }));
		for (let count = 0; count < 3; count += 1) receive("question");
		const fault = { kind: "no-endpoint", count: 1, service: "shop/cart:http" };
		expect(faults).toEqual([fault, fault, fault]);
		expect(vi.getTimerCount()).toBe(0);
	});

	it("is each flow that has to make room", async () => {
		const { faults, relay, receive } = await aListener({ limits: { maxFlows: 2 } });
		for (let port = 1; port <= 50; port += 1) receive("question", port);
		expect(faults).toHaveLength(48);
		expect(faults[0]).toEqual({ kind: "evicted", count: 1, service: "shop/cart:http" });
		expect([relay.count(), relay.evictedFlows()]).toEqual([2, 48]);
	});
});
