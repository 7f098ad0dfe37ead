import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";

import { anEndpointAt, aServicePort } from "../builders.ts";
import { aUdpListener, type RelayParts } from "./udp-fakes.ts";

const A = anEndpointAt("10.2.1.2", 53);
const B = anEndpointAt("10.2.2.2", 53);
const C = anEndpointAt("10.2.3.2", 53);

async function aListener(endpoints: readonly (typeof A)[] = [A], parts: RelayParts = {}) {
	return await aUdpListener(aServicePort({ protocol: "udp", endpoints }), parts);
}

// The one timer is the relay's sweep.
beforeEach(() => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});

afterEach(() => {
	vi.useRealTimers();
});

describe("UdpFlow while its socket opens", () => {
	it("keeps datagrams in order, and sends one at a time", async () => {
		const { net, receive } = await aListener();
		net.connectsAtOnce = false;
		net.sendsAtOnce = false;
		for (const text of ["1", "2", "3"]) receive(text);
		expect(net.newest.pending).toEqual([]);
		net.newest.ready();
		for (const text of ["1", "2", "3"]) {
			expect(net.newest.pending.map((send) => send.text)).toEqual([text]);
			net.newest.pending[0]?.complete();
		}
		expect(net.newest.pending).toEqual([]);
	});

	it("holds 16 datagrams, and drops and counts what is more", async () => {
		const { net, relay, receive } = await aListener();
		net.connectsAtOnce = false;
		for (let count = 1; count <= 18; count += 1) receive(`${count}`);
		net.newest.ready();
		net.settle();
		expect(net.newest.taken.map(({ text }) => text)).toEqual(
			Array.from({ length: 16 }, (_, index) => `${index + 1}`),
		);
		expect(relay.droppedByReason().get("queue-full")).toBe(2);
	});

	it("holds 256 KiB: four of the biggest datagrams", async () => {
		const { net, relay, receive } = await aListener();
		net.connectsAtOnce = false;
		for (let count = 0; count < 5; count += 1) receive(Buffer.alloc(65_507));
		net.newest.ready();
		net.settle();
		expect(net.newest.taken).toHaveLength(4);
		expect(relay.droppedByReason().get("queue-full")).toBe(1);
	});

	it("drops and counts what waits when it is ended", async () => {
		const { net, relay, receive, listener, records } = await aListener();
		net.connectsAtOnce = false;
		for (const text of ["1", "2"]) receive(text);
		listener.close();
		expect(relay.droppedByReason().get("flow-ended")).toBe(2);
		expect(records).toMatchObject([
			{ end: "stopped", endpoint: undefined, attempts: [{ outcome: "abandoned" }], datagramsIn: 0 },
		]);
		net.newest.ready();
		expect(net.newest.pending).toEqual([]);
	});
});

describe("UdpFlow with an endpoint that refuses", () => {
	it("sends the one datagram to the next endpoint, as the same flow", async () => {
		const { net, relay, receive, records, listener } = await aListener([A, B]);
		receive("question");
		net.newest.fail("ECONNREFUSED");
		net.settle();
		expect(net.flows.map(({ taken }) => taken)).toEqual([
			[{ text: "question", to: A.key }],
			[{ text: "question", to: B.key }],
		]);
		expect(net.openFlows).toHaveLength(1);
		net.newest.answer("answer");
		listener.close();
		expect(records).toMatchObject([
			{
				endpoint: B.key,
				attempts: [
					{ endpoint: A.key, outcome: "refused", errorCode: "ECONNREFUSED" },
					{ endpoint: B.key, outcome: "connected" },
				],
				attemptCount: 2,
				datagramsIn: 1,
				bytesIn: 8,
			},
		]);
		expect(relay.droppedDatagrams()).toBe(0);
	});

	it("does not send twice what may have arrived: more than one datagram, or answered", async () => {
		const { net, relay, receive, records } = await aListener([A, B]);
		for (const text of ["1", "2"]) receive(text);
		net.newest.fail("ECONNREFUSED");
		expect(records).toMatchObject([{ end: "endpoint-gone", endpoint: undefined, datagramsIn: 2 }]);
		receive("3");
		net.newest.answer("answer");
		net.newest.fail("ECONNREFUSED");
		expect(records[1]).toMatchObject({ end: "endpoint-gone", endpoint: B.key, datagramsIn: 1 });
		expect(net.flows.map(({ taken }) => taken.length)).toEqual([2, 1]);
		expect(relay.droppedDatagrams()).toBe(0);
	});

	it("does not send again after an error that says nothing of the endpoint", async () => {
		const { net, relay, receive, records } = await aListener([A, B]);
		receive("1");
		net.newest.fail("EIO");
		expect(net.flows).toHaveLength(1);
		expect(records).toMatchObject([{ end: "endpoint-gone", attempts: [{ errorCode: "EIO" }] }]);
		expect(relay.droppedDatagrams()).toBe(0);
	});

	it("carries on what a pending refusal kept from leaving, to the only endpoint too", async () => {
		const { net, relay, receive, records } = await aListener();
		receive("1");
		net.failNext("send", "ECONNREFUSED");
		receive("2");
		// "1" is known to be lost; "2" never left, and the endpoint may be up again by now.
		expect(net.flows.map(({ taken }) => taken.map(({ text }) => text))).toEqual([["1"], ["2"]]);
		expect(records).toMatchObject([{ end: "endpoint-gone", datagramsIn: 0 }]);
		expect(relay.droppedByReason().get("refused")).toBe(1);
	});

	it("carries on in order what waited behind it, in an answered flow too", async () => {
		const { net, receive, records } = await aListener([A, B]);
		receive("1");
		net.newest.answer("answer");
		net.sendsAtOnce = false;
		for (const text of ["2", "3", "4"]) receive(text);
		net.sendsAtOnce = true;
		net.newest.pending[0]?.complete("ECONNREFUSED");
		net.settle();
		expect(records).toMatchObject([{ end: "endpoint-gone", endpoint: A.key }]);
		expect(net.newest.taken.map(({ text }) => text)).toEqual(["2", "3", "4"]);
		expect(net.newest.peer).toBe(B.key);
	});

	it("tries four endpoints at most, and drops the datagram then", async () => {
		const many = [1, 2, 3, 4, 5, 6].map((each) => anEndpointAt(`10.2.${each}.2`, 53));
		const { net, relay, receive, records } = await aListener(many);
		receive("question");
		for (let count = 0; count < 6; count += 1) {
			net.newest.fail("ECONNREFUSED");
			net.settle();
		}
		expect(net.flows).toHaveLength(4);
		expect(net.openFlows).toHaveLength(0);
		expect(records).toMatchObject([{ end: "endpoint-gone", attemptCount: 4, datagramsIn: 0 }]);
		expect(relay.droppedByReason().get("refused")).toBe(1);
	});

	it("ends as unreachable where no endpoint has a route, without trying for ever", async () => {
		const { net, relay, receive, records } = await aListener([A, B]);
		for (let count = 0; count < 3; count += 1) net.failNext("connect", "ENETUNREACH");
		receive("question");
		expect(records).toMatchObject([
			{ end: "unreachable", attempts: [{ outcome: "unreachable" }, { outcome: "unreachable" }] },
		]);
		expect(relay.droppedByReason().get("refused")).toBe(1);
		expect(net.openFlows).toHaveLength(0);
	});

	it("ends when each send fails at once, without trying for ever", async () => {
		const { net, relay, receive } = await aListener();
		for (let count = 0; count < 50; count += 1) net.failNext("send", "EHOSTUNREACH");
		receive("question");
		expect(net.flows).toHaveLength(1);
		expect(relay.droppedByReason().get("refused")).toBe(1);
	});

	it("takes its turn again once a flow to it was not refused, though it never answers", async () => {
		const { net, receive, clock } = await aListener([A, B]);
		receive("1", 1);
		net.newest.fail("ECONNREFUSED");
		clock.nowMs += 1_000;
		for (let port = 2; port < 12; port += 1) receive("log line", port);
		expect(net.openFlows.filter(({ peer }) => peer === A.key)).toHaveLength(1);
		// Ends them as unanswered, without a word from anybody.
		clock.nowMs += 30_000;
		vi.advanceTimersToNextTimer();
		for (let port = 12; port < 22; port += 1) receive("log line", port);
		expect(net.openFlows.filter(({ peer }) => peer === A.key)).toHaveLength(5);
	});
});

describe("UdpFlow whose socket was connected to itself", () => {
	it("takes it for a refusal: the datagram goes to the next endpoint, or is dropped", async () => {
		const { net, relay, receive, records } = await aListener([A, B]);
		net.localAddress = { address: A.address, port: A.port };
		receive("question", 1);
		expect(net.flows.map(({ isOpen, taken }) => [isOpen, taken.length])).toEqual([
			[false, 0],
			[true, 1],
		]);
		const alone = await aListener([A]);
		alone.net.localAddress = net.localAddress;
		alone.receive("question");
		expect(alone.records).toMatchObject([{ end: "unreachable", endpoint: undefined }]);
		expect(alone.relay.droppedByReason().get("refused")).toBe(1);
		expect([records, relay.droppedDatagrams()]).toEqual([[], 0]);
	});
});

describe("UdpFlow without an answer", () => {
	const sticky = {
		protocol: "udp",
		sessionAffinity: { type: "ClientIP", timeoutMs: 60_000 },
	} as const;

	it("takes no client away from the endpoint that answered it meanwhile", async () => {
		const { net, receive, clock, records } = await aUdpListener(
			aServicePort({ ...sticky, endpoints: [A, B] }),
		);
		receive("to a silent one", 1);
		clock.nowMs += 10_000;
		receive("refused", 2);
		net.newest.fail("ECONNREFUSED");
		expect(net.newest.peer).toBe(B.key);
		net.newest.answer("answer");
		clock.nowMs += 20_000;
		vi.advanceTimersToNextTimer();
		expect(records).toMatchObject([{ end: "unanswered", endpoint: A.key }]);
		receive("question", 3);
		expect(net.newest.peer).toBe(B.key);
	});

	it("tells of no affinity when nobody served it", async () => {
		const { net, receive, records } = await aUdpListener(
			aServicePort({ ...sticky, endpoints: [A] }),
		);
		receive("question");
		net.newest.fail("ECONNREFUSED");
		expect(records).toMatchObject([{ endpoint: undefined, affinity: undefined }]);
	});
});

describe("UdpFlow and its datagrams", () => {
	it.each(["EPERM", "EMSGSIZE", "ENOBUFS"])("goes on after a send failed with %s", async (code) => {
		const { net, relay, receive, records } = await aListener([A, B]);
		net.failNext("send", code);
		for (const text of ["1", "2"]) receive(text);
		expect(net.newest.taken.map(({ text }) => text)).toEqual(["2"]);
		expect(relay.droppedByReason().get("send-failed")).toBe(1);
		expect([records, net.flows.length]).toEqual([[], 1]);
	});

	it("goes on after a send has thrown (case 37e)", async () => {
		const { net, relay, receive } = await aListener();
		receive("1");
		net.newest.sendThrows = new Error("thrown");
		receive("2");
		net.newest.sendThrows = undefined;
		receive("3");
		expect(net.newest.taken.map(({ text }) => text)).toEqual(["1", "3"]);
		expect(relay.droppedByReason().get("send-failed")).toBe(1);
	});

	it("takes answers from its endpoint alone", async () => {
		const { net, socket, relay, receive } = await aListener();
		receive("question");
		net.newest.receive("forged", "10.2.1.3", 53);
		net.newest.receive("forged", "10.2.1.2", 54);
		expect(socket.taken).toEqual([]);
		expect(relay.droppedByReason().get("foreign-sender")).toBe(2);
		net.newest.answer("answer");
		expect(socket.taken).toEqual([{ text: "answer", to: "10.1.0.2:4000" }]);
	});

	it("knows its endpoint by every way of writing its address", async () => {
		const endpoint = anEndpointAt("fd10::1:0:0:2", 53);
		const { net, socket, receive } = await aUdpListener(
			aServicePort({ protocol: "udp", family: "ipv6", endpoints: [endpoint] }),
		);
		receive("question", 4_000, "fd10::9");
		net.newest.receive("answer", "fd10:0:0:0:1::2", 53);
		expect(socket.taken).toEqual([{ text: "answer", to: "fd10::9:4000" }]);
	});

	it("ignores what its closed sockets still tell", async () => {
		const { net, socket, relay, receive, listener } = await aListener();
		net.sendsAtOnce = false;
		receive("1");
		const [pending] = net.newest.pending;
		listener.close();
		pending?.complete("ECANCELED");
		net.newest.fail("ECONNREFUSED");
		net.newest.answer("late");
		net.newest.ready();
		expect([socket.taken, net.flows.length, net.newest.closeCount]).toEqual([[], 1, 1]);
		expect(relay.droppedDatagrams()).toBe(1);
	});
});

describe("UdpFlow whose endpoint was taken out", () => {
	it("moves with the client's next datagram; answers until then arrive", async () => {
		const { net, socket, receive, listener, records } = await aListener();
		receive("1");
		listener.update(aServicePort({ protocol: "udp", endpoints: [B, C] }));
		net.newest.answer("late");
		expect(socket.taken.map(({ text }) => text)).toEqual(["late"]);
		receive("2");
		expect(records).toMatchObject([{ end: "endpoint-gone", endpoint: A.key, datagramsOut: 1 }]);
		expect(net.openFlows.map(({ peer }) => peer)).toEqual([B.key]);
	});

	it("stays when the endpoint is back before the client says anything", async () => {
		const { net, receive, listener, records } = await aListener();
		receive("1");
		listener.update(aServicePort({ protocol: "udp", endpoints: [B] }));
		listener.update(aServicePort({ protocol: "udp", endpoints: [B, A] }));
		receive("2");
		expect(net.newest.taken.map(({ text }) => text)).toEqual(["1", "2"]);
		expect(records).toEqual([]);
	});

	it("is not kept alive by an endpoint that talks on", async () => {
		const { net, receive, listener, records, clock } = await aListener();
		receive("1");
		net.newest.answer("answer");
		listener.update(aServicePort({ protocol: "udp", endpoints: [B] }));
		clock.nowMs += 29_999;
		net.newest.answer("more");
		vi.advanceTimersToNextTimer();
		expect(records).toEqual([]);
		clock.nowMs += 1;
		vi.advanceTimersToNextTimer();
		expect(records).toMatchObject([{ end: "endpoint-gone", datagramsOut: 2 }]);
	});
});
