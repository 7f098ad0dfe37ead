import { EventEmitter } from "node:events";
import { describe, expect, test as it } from "vitest";
import { type CrowdSocket, HttpCrowd } from "../../../src/observe/http-crowd.ts";

class FakeSocket extends EventEmitter implements CrowdSocket {
	readonly remoteAddress: string | undefined;
	isOpen = true;

	constructor(remoteAddress: string | undefined) {
		super();
		this.remoteAddress = remoteAddress;
	}

	/** As a socket does, tells of it only later. */
	destroy(): void {
		this.isOpen = false;
	}
}

function aCrowd(maxConnections = 128, bounds: { readonly maxPerClient?: number } = {}) {
	const told: string[] = [];
	const crowd = new HttpCrowd({ maxConnections, ...bounds, onTooMany: (why) => told.push(why) });
	const sockets: FakeSocket[] = [];
	return {
		told,
		come: (address: string | undefined, count = 1): FakeSocket[] => {
			const come = Array.from({ length: count }, () => new FakeSocket(address));
			for (const socket of come) crowd.admit(socket);
			sockets.push(...come);
			return come;
		},
		open: () => sockets.filter(({ isOpen }) => isOpen).length,
	};
}

const openOf = (sockets: readonly FakeSocket[]): number =>
	sockets.filter(({ isOpen }) => isOpen).length;

describe("HttpCrowd", () => {
	it("lets loopback have all, and makes room for whoever else comes", () => {
		const { come, open, told } = aCrowd();
		const local = [...come("127.0.0.1", 100), ...come("127.8.8.8", 27), ...come("::1")];
		expect([open(), told]).toEqual([128, []]);
		const [probe] = come("10.1.0.2");
		expect([probe?.isOpen, local[0]?.isOpen, open()]).toEqual([true, false, 128]);
		expect(told).toEqual(["more than 128 at a time"]);
	});

	it("lets a newcomer of loopback in for the oldest of loopback", () => {
		const { come, open } = aCrowd();
		const [oldest, second] = come("127.0.0.1", 128);
		const [newcomer] = come("::ffff:127.0.0.1");
		expect([oldest?.isOpen, second?.isOpen, newcomer?.isOpen]).toEqual([false, true, true]);
		expect(open()).toBe(128);
	});

	it("refuses the 33rd connection of one client over the network, until one of them ends", () => {
		const { come, told } = aCrowd();
		const mine = come("10.1.0.2", 33);
		expect([openOf(mine), mine[32]?.isOpen]).toEqual([32, false]);
		expect(told).toEqual(["more than 32 of one client at a time"]);
		mine[32]?.emit("close");
		expect(openOf(come("10.1.0.2"))).toBe(0);
		mine[0]?.emit("close");
		expect(openOf(come("10.1.0.2"))).toBe(1);
	});

	it("lets one client over the network have as many as it is told", () => {
		const { come, open, told } = aCrowd(128, { maxPerClient: 128 });
		const mine = come("10.1.0.2", 128);
		expect([openOf(mine), told]).toEqual([128, []]);
		const [probe] = come("10.1.0.3");
		expect([probe?.isOpen, mine[0]?.isOpen, open()]).toEqual([true, false, 128]);
	});

	it("takes from whoever has most: a client with few keeps what it has", () => {
		const { come, open } = aCrowd();
		const few = come("10.9.0.1", 3);
		const many = [1, 2, 3, 4].flatMap((n) => come(`10.1.0.${n}`, 31));
		come("10.9.0.2", 20);
		expect([openOf(few), open()]).toEqual([3, 128]);
		// 128 less 3 and 20: taken from each of the four in turn.
		expect(openOf(many)).toBe(105);
		for (let n = 0; n < 4; n += 1)
			expect(openOf(many.slice(31 * n, 31 * n + 31))).toBe(n < 3 ? 26 : 27);
	});

	it("counts what was closed for another once only", () => {
		const { come, open } = aCrowd(4);
		const first = come("127.0.0.1", 4);
		come("127.0.0.1", 2);
		for (const socket of first) {
			socket.isOpen = false;
			socket.emit("close");
		}
		come("127.0.0.1", 9);
		expect(open()).toBe(4);
	});

	it("gives one client a fourth where there are few", () => {
		const { come } = aCrowd(12);
		expect(openOf(come("10.1.0.2", 9))).toBe(3);
		expect(openOf(aCrowd(1).come("10.1.0.2", 9))).toBe(1);
	});

	it("takes those whose address is gone already for one client", () => {
		const { come } = aCrowd();
		expect(openOf(come(undefined, 40))).toBe(32);
	});
});
