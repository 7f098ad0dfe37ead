import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { DatagramBatch } from "../../../../src/proxies/syscall/datagram-batch.ts";
import { areSameEnds, EndsSender, endsTo } from "../../../../src/proxies/syscall/datagram-ends.ts";
import { SocketAddress } from "../../../../src/proxies/syscall/socket-address.ts";
import { openDatagramSockets } from "../../../../src/proxies/syscall/udp-sockets.ts";
import { type IpFamily, ipFamilyOf } from "../../../../src/services/address.ts";
import { close } from "../../../../src/system/libc.ts";
import { anAddress } from "../builders.ts";

const SLOTS = 4;

describe("DatagramBatch", () => {
	let opened: number[] = [];
	let batch: DatagramBatch;
	beforeEach(() => {
		batch = new DatagramBatch(SLOTS, 100);
	});
	afterEach(() => {
		for (const fd of opened) close(fd);
		opened = [];
	});

	/** A socket on every address of a family, or on one. */
	function open(family: IpFamily, address?: string) {
		const at = address === undefined ? undefined : anAddress(address);
		const { fds, port } = openDatagramSockets({ family, address: at, port: 0 }, 1);
		opened.push(...fds);
		return { fd: fds[0] ?? -1, port };
	}

	function to(address: string, port: number) {
		const ip = anAddress(address);
		return endsTo(new SocketAddress().set(ipFamilyOf(ip), ip, port));
	}

	/** Sends texts from one socket, each to an address. */
	function send(fd: number, ...datagrams: readonly (readonly [text: string, ends: Int32Array])[]) {
		for (const [slot, [text, ends]] of datagrams.entries()) {
			batch.fill(slot, Buffer.from(text), ends);
		}
		expect(batch.send(fd, 0, datagrams.length)).toBe(datagrams.length);
	}

	/** What is there, as "text from address:port at the address that was asked". */
	function receive(fd: number) {
		const count = batch.receive(fd);
		return Array.from({ length: Math.max(0, count) }, (_, slot) => {
			const { address, port, asked } = new EndsSender(batch.ends(slot));
			return `${batch.datagram(slot).toString()} from ${address}:${port} at ${asked}`;
		});
	}

	it("tells which address was asked, and answers from there (IPv4)", () => {
		const [all, one] = [open("ipv4"), open("ipv4", "127.0.0.1")];
		send(one.fd, ["a", to("127.0.0.3", all.port)], ["b", to("127.0.0.4", all.port)]);
		expect(receive(all.fd)).toEqual([
			`a from 127.0.0.1:${one.port} at 127.0.0.3`,
			`b from 127.0.0.1:${one.port} at 127.0.0.4`,
		]);
		const [third, fourth] = [batch.ends(0).slice(), batch.ends(1).slice()];
		send(all.fd, ["to b", fourth], ["to a", third]);
		expect(receive(one.fd)).toEqual([
			`to b from 127.0.0.4:${all.port} at 127.0.0.1`,
			`to a from 127.0.0.3:${all.port} at 127.0.0.1`,
		]);
	});

	it("tells which address was asked, and answers from there (IPv6)", () => {
		const [all, one] = [open("ipv6"), open("ipv6", "::1")];
		send(one.fd, ["a", to("::1", all.port)]);
		expect(receive(all.fd)).toEqual([`a from ::1:${one.port} at ::1`]);
		send(all.fd, ["back", batch.ends(0).slice()]);
		expect(receive(one.fd)).toEqual([`back from ::1:${all.port} at ::1`]);
	});

	it("has the same ends for the same sender in whichever slot, whoever was in there before", () => {
		const [all, one] = [open("ipv4"), open("ipv4", "127.0.0.1")];
		const [allOf6, oneOf6] = [open("ipv6"), open("ipv6", "::1")];
		const ends: Int32Array[] = [];
		for (let round = 0; round < SLOTS; round += 1) {
			const fill = Array.from(
				{ length: round + 1 },
				() => ["x", to("127.0.0.3", all.port)] as const,
			);
			send(one.fd, ...fill);
			expect(receive(all.fd)).toHaveLength(round + 1);
			ends.push(batch.ends(round).slice());
			send(oneOf6.fd, ["y", to("::1", allOf6.port)], ["z", to("::1", allOf6.port)]);
			expect(receive(allOf6.fd)).toHaveLength(2);
		}
		const [first = new Int32Array()] = ends;
		expect(ends.map((each) => areSameEnds(each, first))).toEqual(ends.map(() => true));
	});

	it("cuts what is longer than a slot, and takes whole what comes after", () => {
		const [all, one] = [open("ipv4"), open("ipv4", "127.0.0.1")];
		const big = new DatagramBatch(1, 200);
		big.fill(0, Buffer.alloc(200, "l"), to("127.0.0.1", all.port));
		big.send(one.fd, 0, 1);
		send(one.fd, ["short", to("127.0.0.1", all.port)]);
		expect(batch.receive(all.fd)).toBe(2);
		expect([batch.datagram(0).length, batch.datagram(1).toString()]).toEqual([100, "short"]);
	});

	it("says which error there was, and that nothing is there", () => {
		expect(batch.receive(open("ipv4").fd)).toBe(-11);
		expect(batch.receive(-1)).toBe(-9);
	});
});
