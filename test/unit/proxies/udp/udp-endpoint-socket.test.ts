import { describe, expect, test as it } from "vitest";

import {
	EndpointSocket,
	type EndpointSocketFailure,
	udpOutcomeOf,
} from "../../../../src/proxies/udp/udp-endpoint-socket.ts";
import { HeldBytes } from "../../../../src/proxies/udp/udp-held-bytes.ts";
import { anEndpointAt } from "../builders.ts";
import { FakeNet } from "./udp-fakes.ts";

/** A socket that connects and sends when the test says so, and what it told its owner. */
function aSocket({ waitingLimit = 1_000, keptLimit = 1_000 } = {}) {
	const net = new FakeNet();
	net.connectsAtOnce = false;
	net.sendsAtOnce = false;
	const drops: string[] = [];
	const failures: EndpointSocketFailure[] = [];
	const waitingBytes = new HeldBytes(waitingLimit);
	const keptBytes = new HeldBytes(keptLimit);
	const socket = new EndpointSocket({
		endpoint: anEndpointAt("10.2.1.2", 53),
		owner: {
			onOpen: () => {},
			onAnswer: () => {},
			onSent: () => {},
			onDrop: (reason) => drops.push(reason),
			onFailure: (failure) => failures.push(failure),
		},
		createSocket: net.create,
		leadsBack: () => false,
		waitingBytes,
		keptBytes,
	});
	socket.open();
	const send = (bytes: number) => socket.send(Buffer.alloc(bytes));
	return { net, socket, send, drops, failures, held: () => [waitingBytes.held, keptBytes.held] };
}

describe("EndpointSocket and the bytes that all flows hold together", () => {
	it("gives back what waited once the kernel has it, and keeps the first datagram until the next", () => {
		const { net, send, held } = aSocket();
		send(100);
		send(200);
		expect(held()).toEqual([300, 0]);
		net.newest.ready();
		expect(held()).toEqual([200, 0]);
		net.newest.pending[0]?.complete();
		expect(held()).toEqual([0, 100]);
		net.newest.pending[0]?.complete();
		expect(held()).toEqual([0, 0]);
	});

	it("gives back everything with an answer, a failure, or when it is closed", () => {
		const answered = aSocket();
		answered.net.newest.ready();
		answered.send(100);
		answered.net.newest.pending[0]?.complete();
		answered.net.newest.answer("answer");
		expect(answered.held()).toEqual([0, 0]);

		const refused = aSocket();
		refused.net.newest.ready();
		for (const bytes of [100, 200, 300]) refused.send(bytes);
		refused.net.newest.pending[0]?.complete();
		expect(refused.held()).toEqual([300, 100]);
		refused.net.newest.fail("ECONNREFUSED");
		expect(refused.held()).toEqual([0, 0]);
		expect(refused.failures.map((each) => [each.refused?.length, each.unsent.length])).toEqual([
			[100, 2],
		]);

		const closed = aSocket();
		for (const bytes of [100, 200]) closed.send(bytes);
		closed.socket.close();
		closed.socket.close();
		expect([closed.held(), closed.drops]).toEqual([
			[0, 0],
			["flow-ended", "flow-ended"],
		]);
	});

	it("drops what does not fit, and goes on with what does", () => {
		const { send, drops, held } = aSocket({ waitingLimit: 250 });
		send(200);
		send(100);
		send(50);
		expect([drops, held()]).toEqual([["queue-full"], [250, 0]]);
	});

	it("does not keep a first datagram that does not fit: a refusal costs it", () => {
		const { net, send, held, failures } = aSocket({ keptLimit: 50 });
		net.newest.ready();
		send(100);
		net.newest.pending[0]?.complete();
		expect(held()).toEqual([0, 0]);
		net.newest.fail("ECONNREFUSED");
		expect(failures).toMatchObject([{ sentCount: 1, refused: undefined, unsent: [] }]);
	});
});

describe("udpOutcomeOf()", () => {
	it("blames the endpoint for ICMP errors and missing routes alone", () => {
		const codes = ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EMFILE", "EPERM", undefined];
		expect(codes.map(udpOutcomeOf)).toEqual([
			"refused",
			"unreachable",
			"unreachable",
			"local-error",
			"local-error",
			"local-error",
		]);
	});
});
