import { describe, expect, test as it } from "vitest";
import {
	areSameEnds,
	EndsSender,
	endsTo,
	hashOfEnds,
	settleEnds,
} from "../../../../src/proxies/syscall/datagram-ends.ts";
import { SocketAddress } from "../../../../src/proxies/syscall/socket-address.ts";
import { ipFamilyOf } from "../../../../src/services/address.ts";
import { anAddress } from "../builders.ts";

/** A sender's address and port, and the interface of a link-local one. */
function endsOf(address: string, port = 4_000, scope = 0) {
	const ip = anAddress(address);
	const ends = endsTo(new SocketAddress().set(ipFamilyOf(ip), ip, port));
	if (ip.includes(":")) ends[6] = scope;
	return ends;
}

/** As the kernel writes it beside: which address was asked, and by which interface. */
function asking(ends: Int32Array, address: string, interfaceIndex: number) {
	const control = Buffer.from(ends.buffer, 32);
	const ip = new SocketAddress().set(ipFamilyOf(anAddress(address)), anAddress(address), 0).bytes;
	if (address.includes(":")) {
		control.writeUInt32LE(36, 0);
		control.writeUInt32LE(41, 8);
		control.writeUInt32LE(50, 12);
		ip.copy(control, 16, 8, 24);
		control.writeUInt32LE(interfaceIndex, 32);
	} else {
		control.writeUInt32LE(28, 0);
		control.writeUInt32LE(0, 8);
		control.writeUInt32LE(8, 12);
		control.writeUInt32LE(interfaceIndex, 16);
		ip.copy(control, 20, 4, 8);
		ip.copy(control, 24, 4, 8);
	}
	settleEnds(ends, true);
	return ends;
}

/** Whether both are one sender, by each of the three ways in which they are compared. */
function areOne(a: Int32Array, b: Int32Array) {
	return [areSameEnds(a, b), hashOfEnds(a) === hashOfEnds(b), keyOf(a) === keyOf(b)];
}

function keyOf(ends: Int32Array) {
	return new EndsSender(ends).key;
}

const ALL_SAY = [true, true, true];
const NONE_SAYS = [false, false, false];

describe("the ends of datagrams", () => {
	it.each([
		["10.1.0.2", "10.96.0.10"],
		["fd10:1::2", "fd10:96::a"],
		["fe80::2", "fe80::1"],
	])("from %s to %s are told", (from, asked) => {
		expect(new EndsSender(asking(endsOf(from), asked, 3))).toMatchObject({
			address: from,
			port: 4_000,
			asked,
		});
	});

	it.each([
		["10.1.0.2", "10.1.0.1"],
		["fd10:1::2", "fd10:1::1"],
	])("from %s to %s are the same by whichever interface they came", (from, asked) => {
		const [first, second] = [asking(endsOf(from), asked, 3), asking(endsOf(from), asked, 4)];
		expect(areOne(first, second)).toEqual(ALL_SAY);
		expect([...second.subarray(8)]).not.toContain(4);
	});

	it("keep the interface of a link-local address: nothing can be sent from it without", () => {
		const [first, second] = [3, 4].map((each) => asking(endsOf("fd10:1::2"), "fe80::1", each));
		expect(first?.[16]).toBe(3);
		expect(areOne(first ?? new Int32Array(), second ?? new Int32Array())).toEqual(NONE_SAYS);
	});

	it.each([
		["another address of the node", asking(endsOf("10.1.0.2"), "10.1.0.7", 3)],
		["another address of the client", asking(endsOf("10.1.0.3"), "10.1.0.1", 3)],
		["another port of the client", asking(endsOf("10.1.0.2", 4_001), "10.1.0.1", 3)],
		["no address of the node", endsOf("10.1.0.2")],
	])("are others with %s", (_, ends) => {
		expect(areOne(asking(endsOf("10.1.0.2"), "10.1.0.1", 3), ends)).toEqual(NONE_SAYS);
	});

	it("tell clients with one link-local address on two links apart", () => {
		const [two, three] = [endsOf("fe80::1", 53, 2), endsOf("fe80::1", 53, 3)];
		expect(areOne(two, three)).toEqual(NONE_SAYS);
		expect([two, three].map((ends) => new EndsSender(ends).address)).toEqual([
			"fe80::1",
			"fe80::1",
		]);
	});

	it("hold nothing of what was in the same memory before", () => {
		const ends = asking(endsOf("fe80::2", 4_000, 3), "fe80::1", 3);
		const bytes = new SocketAddress().set("ipv4", anAddress("10.1.0.2"), 4_000).bytes;
		new Uint8Array(ends.buffer).set(bytes.subarray(0, 16));
		asking(ends, "10.1.0.1", 3);
		expect(areOne(ends, asking(endsOf("10.1.0.2"), "10.1.0.1", 3))).toEqual(ALL_SAY);
		settleEnds(ends, false);
		expect(areOne(ends, endsOf("10.1.0.2"))).toEqual(ALL_SAY);
		expect(new EndsSender(ends).asked).toBeUndefined();
	});

	it("have hashes that differ where ports and addresses follow each other", () => {
		const hashes = new Set<number>();
		for (let port = 1; port <= 2_000; port += 1) {
			hashes.add(hashOfEnds(asking(endsOf("10.1.0.2", port), "10.1.0.1", 3)));
			hashes.add(hashOfEnds(asking(endsOf(`10.1.${port >> 8}.${port & 255}`), "10.1.0.1", 3)));
		}
		expect(hashes.size).toBeGreaterThan(3_990);
	});
});
